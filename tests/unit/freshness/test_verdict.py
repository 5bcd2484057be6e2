"""The verdict about a feed that follows from its state: status, headline and times."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.evaluation import evaluate, find_incidents
from dedup_clone.freshness.feed_state import FeedState, ReportedMarker
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.state.audits import AuditOutcome
from tests.shared.freshness_states import (
    DAILY,
    GIVEN_UP,
    MANY_NEW,
    NOW,
    REPEATED,
    activity,
    audits,
    current,
    feed_state,
    held,
    intent,
    minutes,
    record,
    refused,
    table,
    target,
    waits,
)

LIVE = (Delivery(6, 1), Delivery(7, 1))
ASKED = replace(intent(minutes(1)), waits_for_approval=True)
NOTHING = {"live": None, "history": (), "arrivals": (), "current": current(generation=None), "target": None}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (feed_state(), FreshnessStatus.FRESH),
        (feed_state(waiting=(waits(minutes(1)),)), FreshnessStatus.FRESH),
        (feed_state(waiting=(waits(minutes(31)),)), FreshnessStatus.AT_RISK),
        (feed_state(waiting=(waits(minutes(61)),)), FreshnessStatus.LATE),
        (feed_state(max_age_minutes=60), FreshnessStatus.LATE),
        (feed_state(expected=DAILY, arrivals=(NOW - timedelta(hours=24),)), FreshnessStatus.AT_RISK),
        (feed_state(watch_dag=activity(is_paused=True)), FreshnessStatus.AT_RISK),
        (feed_state(**NOTHING), FreshnessStatus.EMPTY),
        (feed_state(included=LIVE, excluded=(Delivery(9, 1),)), FreshnessStatus.ROLLED_BACK),
        (feed_state(included=LIVE, excluded=(Delivery(5, 1),)), FreshnessStatus.FRESH),
        (feed_state(waiting=(waits(minutes(1)),), failed_checks=(MANY_NEW,)), FreshnessStatus.STOPPED),
        (feed_state(included=LIVE, held=(held(8),)), FreshnessStatus.STOPPED),
        (feed_state(included=LIVE, held=(held(6),)), FreshnessStatus.AT_RISK),
        (feed_state(**NOTHING, waiting=(waits(minutes(61)),)), FreshnessStatus.LATE),
    ],
    ids=str,
)
def test_the_status_follows_from_the_incidents(state: FeedState, expected: FreshnessStatus) -> None:
    verdict = evaluate(NOW, state)
    assert verdict.status is expected
    assert list(verdict.incidents) == find_incidents(NOW, state)


@pytest.mark.parametrize(
    ("state", "headline"),
    [
        (feed_state(), "Readers see snapshot 7, the newest one."),
        (feed_state(waiting=(waits(minutes(1)),)), "Readers see snapshot 7; 1 more waits."),
        (feed_state(waiting=(waits(minutes(1)), waits(minutes(2), 9))), "Readers see snapshot 7; 2 more wait."),
        (feed_state(live=record(7, restores=5)), "Readers see snapshot 7 again, by a rollback to generation 5."),
        (
            feed_state(live=record(7, deliveries=())),
            "Readers see the table that was taken over, up to update id 7.",
        ),
        (
            feed_state(live=record(7, deliveries=(), parent=6, erased_rows=3, taken_over=True)),
            "Readers see the table that was taken over, up to update id 7.",
        ),
        (
            feed_state(live=record(7, deliveries=(), parent=6, restores=5, taken_over=True)),
            "Readers see the table that was taken over, up to update id 7, again, by a rollback to generation 5.",
        ),
        (feed_state(live=None), "Readers see generation 7."),
        (
            feed_state(live=record(7, lag_s=None, deliveries=(Delivery(6, 1),), parent=6)),
            "Readers see snapshot 7, the newest one. The last publish was a replay of snapshot 6.",
        ),
        (
            feed_state(live=record(7, lag_s=None, deliveries=(), parent=6)),
            "Readers see snapshot 7, the newest one. The last publish was a replay of some dates.",
        ),
        (feed_state(refused=(refused(8), refused(6))), "Readers see snapshot 7; 1 newer refused."),
        (feed_state(excluded=(Delivery(8, 1),)), "Readers see snapshot 7; 1 newer excluded by a rollback."),
        (
            feed_state(included=LIVE, refused=(refused(7, 2),)),
            "Readers see snapshot 7; a correction of snapshot 7 was refused.",
        ),
        (
            feed_state(included=LIVE, excluded=(Delivery(7, 2), Delivery(8, 1), Delivery(8, 2))),
            "Readers see snapshot 7; a correction of snapshot 7 was excluded by a rollback; "
            "1 newer excluded by a rollback.",
        ),
        (
            feed_state(included=LIVE, refused=(refused(6, 2), refused(8, 1), refused(8, 2))),
            "Readers see snapshot 7; 1 newer refused.",
        ),
        (
            feed_state(included=LIVE, refused=(refused(8, 1),), waiting=(waits(minutes(1), 8, marker=2),)),
            "Readers see snapshot 7; 1 more waits.",
        ),
        (
            feed_state(refused=tuple(refused(number) for number in range(8, 28))),
            "Readers see snapshot 7; 20 or more newer refused.",
        ),
        (
            feed_state(watch_dag=activity(is_paused=True)),
            "Readers see snapshot 7; the watch DAG is paused since 2026-06-15 12:00:00 UTC.",
        ),
        (
            feed_state(watch_dag=activity(has_active_run=False, succeeded_at=NOW - minutes(11))),
            "Readers see snapshot 7; the watch DAG registers nothing since 2026-06-15 11:49:00 UTC.",
        ),
        (
            feed_state(publish_dag=activity("sales_publish", is_paused=True)),
            "Readers see snapshot 7; the publish DAG is paused since 2026-06-15 12:00:00 UTC.",
        ),
        (
            feed_state(target=target(table(labels={}))),
            "Readers see snapshot 7; target is not what the last publish left.",
        ),
        (
            feed_state(target=target(materialized_views=("totals",))),
            "Readers see snapshot 7; a materialized view of target prevents publishes since 2026-06-15 12:00:00 UTC.",
        ),
        (
            feed_state(audits=audits(AuditOutcome.UNEQUAL, AuditOutcome.UNEQUAL)),
            "Readers see snapshot 7; an audit found other values on 2 dates.",
        ),
        (feed_state(watch_dag=None), "Readers see snapshot 7; Airflow does not know the watch DAG."),
        (
            feed_state(invalid_markers=(ReportedMarker(4711, "no id", NOW),)),
            "Readers see snapshot 7; 1 marker names no delivery.",
        ),
        (
            feed_state(waiting=(waits(minutes(1)),), failed_run=REPEATED),
            "Readers see snapshot 7; 1 more waits: the last run published nothing, the next one starts at "
            "2026-06-15 12:10:00 UTC.",
        ),
        (
            feed_state(waiting=(waits(minutes(1)),), failed_run=GIVEN_UP),
            "Readers see snapshot 7; 1 more waits until a person acts, because all runs failed.",
        ),
        (
            feed_state(waiting=(waits(minutes(1)),), failed_checks=(MANY_NEW,), failed_run=GIVEN_UP),
            "Readers see snapshot 7; 1 more waits, stopped: 50 % new rows, 20 % allowed.",
        ),
        (
            feed_state(waiting=(waits(minutes(1)),), failed_checks=(MANY_NEW,), current=current(intent(minutes(0)))),
            "Readers see snapshot 7; 1 more waits.",
        ),
        (
            feed_state(waiting=(waits(minutes(1)),), failed_checks=(replace(MANY_NEW, brief=""),)),
            "Readers see snapshot 7; 1 more waits, stopped: new_share: 5 of 10 rows new, expected at most 20.00% as "
            "configured.",
        ),
        (
            feed_state(current=current(ASKED)),
            "Readers see snapshot 7, the newest one. Generation 8 waits for an approval (Required Actions).",
        ),
        (
            feed_state(**{**NOTHING, "current": current(ASKED, generation=None)}, waiting=(waits(minutes(1)),)),
            "Nothing is published yet; 1 waits. Generation 8 waits for an approval (Required Actions).",
        ),
        (
            feed_state(live=record(7, deliveries=()), current=current(ASKED)),
            "Readers see the table that was taken over, up to update id 7. "
            "Generation 8 waits for an approval (Required Actions).",
        ),
        (
            feed_state(live=record(7, restores=5), current=current(ASKED)),
            "Readers see snapshot 7 again, by a rollback to generation 5. "
            "Generation 8 waits for an approval (Required Actions).",
        ),
        (feed_state(**NOTHING), "Nothing is published yet."),
        (feed_state(**NOTHING, waiting=(waits(minutes(61)),)), "Nothing is published yet; 1 waits."),
    ],
    ids=str,
)
def test_the_headline_says_what_readers_see(state: FeedState, headline: str) -> None:
    assert evaluate(NOW, state).headline == headline


def test_the_verdict_names_the_next_expected_arrival_and_when_the_next_check_is_due() -> None:
    verdict = evaluate(NOW, feed_state(expected=DAILY, arrivals=(NOW - minutes(62),)))
    assert verdict.next_expected_at == NOW + timedelta(hours=23)
    assert (verdict.checked_at, verdict.check_interval_s) == (NOW, 300.0)
    assert (verdict.due_at, verdict.summary.due_at) == (None, None)
    assert evaluate(NOW, feed_state(waiting=(waits(minutes(7)), waits(minutes(2), 9)))).due_at == NOW + minutes(53)
    assert not verdict.is_stale(NOW + minutes(15))
    assert verdict.is_stale(NOW + minutes(15.1))
    assert evaluate(NOW, feed_state()).next_expected_at is None


def test_an_incident_without_a_date_of_its_own_began_when_a_check_first_found_it() -> None:
    paused = feed_state(watch_dag=activity(is_paused=True))
    first = evaluate(NOW, paused)
    second = evaluate(NOW + minutes(20), paused, previous=first)
    assert [i.since for i in second.incidents] == [NOW]
    assert second.headline == "Readers see snapshot 7; the watch DAG is paused since 2026-06-15 12:00:00 UTC."
    well = evaluate(NOW + minutes(25), feed_state(), previous=second)
    again = evaluate(NOW + minutes(30), paused, previous=well)
    assert [i.since for i in again.incidents] == [NOW + minutes(30)]
