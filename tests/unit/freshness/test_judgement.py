"""The state of a feed, as a table: its incidents and what they say, its status and its headline."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.evaluation import evaluate, find_incidents
from dedup_clone.freshness.feed_state import FeedState, PendingJob
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import FreshnessStatus
from dedup_clone.settings.feed import ExpectedArrivals
from dedup_clone.state.landing import InvalidMarker
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
    stopped,
    table,
    target,
    waits,
)

FAILED = replace(REPEATED, repeat_at=None)
OLD_FAILURE, NEW_FAILURE = NOW - minutes(40), NOW - minutes(3)

CASES: dict[str, tuple[FeedState, list[str]]] = {
    "all is well": (feed_state(), []),
    "nothing was ever published": (
        feed_state(
            live=None, history=(), arrivals=(), current=current(generation=None), target=target(table(labels={}))
        ),
        [],
    ),
    # -- the SLA: 25 minutes usually pass between lease and swap, the next check comes in 5
    "a delivery has just come": (feed_state(waiting=(waits(minutes(1)),)), []),
    "it waits, and may just make it": (feed_state(waiting=(waits(minutes(30)),)), []),
    "it waits, and will not make it": (feed_state(waiting=(waits(minutes(31)),)), ["late warning"]),
    "its run is half way": (feed_state(waiting=(waits(minutes(40)),), current=current(intent(minutes(12)))), []),
    "its run is slow": (
        feed_state(waiting=(waits(minutes(51)),), current=current(intent(minutes(46)))),
        ["late warning"],
    ),
    "its run loads in time": (
        feed_state(waiting=(waits(minutes(49)),), current=current(intent(minutes(44), "sales-8-x-load-1"))),
        [],
    ),
    "its run loads too late": (
        feed_state(waiting=(waits(minutes(51)),), current=current(intent(minutes(46), "sales-8-x-load-1"))),
        ["late warning"],
    ),
    "a rollback is in its way": (
        feed_state(waiting=(waits(minutes(31)),), current=current(intent(minutes(1), kind=Kind.ROLLBACK))),
        ["late warning"],
    ),
    "there is no baseline yet: half the SLA counts": (
        feed_state(waiting=(waits(minutes(26)),), history=(record(),)),
        ["late warning"],
    ),
    "its last attempt failed": (feed_state(waiting=(waits(minutes(1)),), failed_run=FAILED), ["late warning"]),
    "its last attempt failed, and a publish is running": (
        feed_state(waiting=(waits(minutes(1)),), failed_run=FAILED, current=current(intent(minutes(0)))),
        [],
    ),
    "its run failed before it acquired the lease, and is repeated": (
        feed_state(waiting=(waits(minutes(1)),), failed_run=REPEATED),
        ["late warning"],
    ),
    "its run failed and could not give the lease back": (
        feed_state(
            waiting=(waits(minutes(1)),),
            failed_run=REPEATED,
            current=current(replace(intent(minutes(0)), run_id=REPEATED.run_id)),
            lease_holder_running=False,
        ),
        ["late warning"],
    ),
    "the SLA is missed": (feed_state(waiting=(waits(minutes(60.1)),)), ["late"]),
    "the oldest counts": (feed_state(waiting=(waits(minutes(1), 9), waits(minutes(61), 8))), ["late"]),
    "it counts although it is not registered": (
        feed_state(waiting=(waits(minutes(61), registered=False),)),
        ["late", "stopped-watch_idle"],
    ),
    # -- arrivals and age
    "expected, and there": (feed_state(expected=DAILY, arrivals=(NOW - minutes(62),)), []),
    "expected, and tolerably late": (
        feed_state(expected=ExpectedArrivals(times=("11:45",)), arrivals=(NOW - timedelta(hours=24),)),
        [],
    ),
    "expected, and overdue": (feed_state(expected=DAILY, arrivals=(NOW - timedelta(hours=24),)), ["arrival_overdue"]),
    "expected, and there never was one": (
        feed_state(expected=DAILY, arrivals=(), live=None, history=(), current=current(generation=None)),
        ["arrival_overdue"],
    ),
    "older than tolerated": (feed_state(max_age_minutes=119), ["late-too_old"]),
    "as old as tolerated": (feed_state(max_age_minutes=120), []),
    # -- DAGs and lease
    "watch is paused": (feed_state(watch_dag=activity(is_paused=True, has_active_run=False)), ["stopped-watch_paused"]),
    "watch failed, and failed since": (
        feed_state(watch_dag=activity(failed_at=NEW_FAILURE)),
        ["stopped-watch_failing"],
    ),
    "watch failed, and has recovered": (feed_state(watch_dag=activity(failed_at=OLD_FAILURE)), []),
    "watch failed, and a later run waits for a marker": (
        feed_state(watch_dag=activity(failed_at=NEW_FAILURE, is_deferred=True)),
        [],
    ),
    "watch has a run that does not register what has landed": (
        feed_state(watch_dag=activity(is_deferred=True), waiting=(waits(minutes(11), registered=False),)),
        ["stopped-watch_idle"],
    ),
    "watch has a run that may still register what has landed": (
        feed_state(watch_dag=activity(), waiting=(waits(minutes(9), registered=False),)),
        [],
    ),
    "watch failed and was not started again": (
        feed_state(watch_dag=activity(failed_at=NOW - minutes(11), has_active_run=False)),
        ["stopped-watch_failing", "stopped-watch_idle"],
    ),
    "watch is between two runs": (
        feed_state(watch_dag=activity(has_active_run=False, succeeded_at=NOW - minutes(1))),
        [],
    ),
    "watch is not scheduled any more": (feed_state(watch_dag=activity(has_active_run=False)), ["stopped-watch_idle"]),
    "watch is new": (feed_state(watch_dag=activity(has_active_run=False, succeeded_at=None)), []),
    "watch never ran although a marker waits": (
        feed_state(
            watch_dag=activity(has_active_run=False, succeeded_at=None), waiting=(waits(minutes(11), registered=False),)
        ),
        ["stopped-watch_idle"],
    ),
    "Airflow does not know the DAGs yet": (feed_state(watch_dag=None), []),
    "no run is left for a delivery that waits": (feed_state(failed_run=GIVEN_UP), ["publish_failed"]),
    "publish is paused": (
        feed_state(publish_is_paused=True),
        ["stopped-publish_paused"],
    ),
    "the lease is held for a while": (feed_state(current=current(intent(minutes(59)))), []),
    "a dead run holds the lease, and none comes to recover its attempt": (
        feed_state(current=current(intent(minutes(1))), lease_holder_running=False),
        ["stopped-lease_held"],
    ),
    "a dead run holds the lease, and the run of a waiting delivery recovers its attempt": (
        feed_state(current=current(intent(minutes(1))), lease_holder_running=False, waiting=(waits(minutes(2)),)),
        ["late warning"],
    ),
    "a dead run holds the lease although deliveries wait": (
        feed_state(current=current(intent(minutes(61))), lease_holder_running=False, waiting=(waits(minutes(1)),)),
        ["late warning", "stopped-lease_held"],
    ),
    "a running run may take longer": (feed_state(current=current(intent(minutes(119))), lease_holder_running=True), []),
    "a running run holds the lease too long": (
        feed_state(current=current(intent(minutes(121))), lease_holder_running=True),
        ["stopped-lease_held"],
    ),
    "a job waits, but not for long": (feed_state(pending_job=PendingJob("load-1", NOW - minutes(9), False)), []),
    "a job waits for more than a sixth of the SLA": (
        feed_state(pending_job=PendingJob("load-1", NOW - minutes(11), False)),
        ["stopped-job_pending warning"],
    ),
    # -- records
    "CURRENT was deleted": (
        feed_state(live=None, history=(), current=current(generation=None), target=None, current_is_lost=True),
        ["stopped-records_lost"],
    ),
    "the ledger record of the live generation was deleted": (feed_state(live=None), ["reporting-records_lost warning"]),
    # -- target
    "target is gone": (feed_state(target=target(None, table=None)), ["target_drift"]),
    "target is a table of its own": (
        feed_state(target=target(table(clone_of=None, clone_time=None))),
        ["target_drift"],
    ),
    "target is a clone of something else": (feed_state(target=target(table(clone_of="other"))), ["target_drift"]),
    "target was cloned at another time": (feed_state(target=target(table(clone_time=NOW))), ["target_drift"]),
    "it was not recorded when target was cloned": (
        feed_state(target=target(table(clone_time=NOW), cloned_at=None)),
        [],
    ),
    "a label was changed": (feed_state(target=target(table(labels={"dedup_clone_generation": "7"}))), ["target_drift"]),
    "the expiration was taken off": (feed_state(target=target(table(expiration_days=None))), ["target_drift"]),
    "target is newer than CURRENT while its run commits": (
        feed_state(
            current=current(intent(minutes(9))),
            target=target(table(labels={"dedup_clone_generation": "8"}, clone_time=NOW)),
            lease_holder_running=True,
        ),
        [],
    ),
    "a run ended after its swap without a commit": (
        feed_state(
            current=current(intent(minutes(1))),
            target=target(table(labels={"dedup_clone_generation": "8"}, clone_time=NOW)),
            lease_holder_running=False,
        ),
        ["stopped-lease_held"],
    ),
    "target is of an older generation while a run is running": (
        feed_state(current=current(intent(minutes(9))), target=target(table(labels={"dedup_clone_generation": "6"}))),
        ["target_drift"],
    ),
    "a materialized view reads target": (
        feed_state(target=target(materialized_views=("totals",))),
        ["stopped-materialized_view warning"],
    ),
    # -- contents
    "a partition was audited and is equal": (feed_state(audits=audits(0)), []),
    "a partition holds other values": (feed_state(audits=audits(0, 1)), ["content_unequal-2026-06-02"]),
    # -- deliveries
    "two deliveries were refused": (feed_state(refused=(refused(8), refused(9))), ["refused-8-1", "refused-9-1"]),
    "a delivery is held": (feed_state(held=(held(8),)), ["publish_failed-held-8-1"]),
    "a check after the swap failed": (feed_state(failed_after_swap=(MANY_NEW,)), ["target_drift-after_swap-7"]),
    "a marker names no delivery": (
        feed_state(invalid_markers=(InvalidMarker("x/_SUCCESS", "gs://landing/x/_SUCCESS", 4711, NOW, "no id"),)),
        ["refused-marker-4711 warning"],
    ),
}


def name_and_warning(incident: Incident) -> str:
    return f"{incident.name} warning" if incident.severity is Severity.WARNING else incident.name


@pytest.mark.parametrize("case", CASES, ids=lambda name: name.replace(" ", "_"))
def test_the_incidents_of_a_state(case: str) -> None:
    known, expected = CASES[case]
    found = find_incidents(NOW, known)
    assert [name_and_warning(incident) for incident in found] == expected
    for incident in found:
        assert incident.what
        assert incident.next_step.endswith(".")
        assert incident.since <= NOW


def test_each_kind_has_a_case() -> None:
    """Those of `stopped` and `reporting` that need no state of a feed: tests/contract/freshness/test_all_feeds.py."""
    seen = {incident.kind for known, _ in CASES.values() for incident in find_incidents(NOW, known)}
    assert seen == set(IncidentKind)


STOPPED = feed_state(waiting=(waits(minutes(1)),), stopped=stopped(MANY_NEW))
DEAD = feed_state(current=current(intent(minutes(121))), lease_holder_running=False)
PENDING = PendingJob("merge-1", NOW - minutes(30), True)
# Each: a state, the name of one of its incidents, and what it says: what is wrong, or what to do.
SAID: list[tuple[FeedState, str, list[str]]] = [
    (STOPPED, "late", ["stopped by check [new_share]", "replay it and accept [new_share] with a reason"]),
    (DEAD, "stopped-lease_held", ["is not running any more"]),
    (replace(DEAD, lease_holder_running=True), "stopped-lease_held", ["is running: nothing else can be published."]),
    (feed_state(waiting=(waits(minutes(31)),)), "late", ["usually takes 25 min", "open the publish run"]),
    (
        feed_state(stopped=stopped(MANY_NEW), failed_run=GIVEN_UP),
        "publish_failed",
        ["new_share: 5 of 10 rows new", "accept [new_share] with a reason", "If it is wrong, discard it there"],
    ),
    (
        feed_state(pending_job=PENDING),
        "stopped-job_pending",
        ["PENDING for 30 min, 50% of the freshness SLA", "DML statements"],
    ),
    (feed_state(pending_job=replace(PENDING, is_statement=False)), "stopped-job_pending", ["slots"]),
]


@pytest.mark.parametrize(("state", "name", "said"), SAID, ids=[said[0] for _, _, said in SAID])
def test_an_incident_says_what_is_wrong_and_what_to_do(state: FeedState, name: str, said: list[str]) -> None:
    (found,) = [incident for incident in find_incidents(NOW, state) if incident.name == name]
    text = f"{found.what} {found.next_step}"
    assert [words for words in said if words not in text] == []


def test_an_incident_began_when_its_cause_did() -> None:
    (missed,) = find_incidents(NOW, feed_state(waiting=(waits(minutes(75)),)))
    (pending,) = find_incidents(NOW, feed_state(pending_job=PENDING))
    assert (missed.since, pending.since) == (NOW - minutes(15), NOW - minutes(20))


@pytest.mark.parametrize("waited", [minutes(59), minutes(61)], ids=str)
@pytest.mark.parametrize(
    ("changes", "dag_and_run"),
    [
        ({"current": current(intent(minutes(20)))}, ("sales_publish", "run-8")),
        ({"failed_run": GIVEN_UP}, ("sales_publish", "publish__8__1__4")),
        ({}, ("", "")),
    ],
    ids=["the lease is held", "a run failed", "no run"],
)
def test_an_incident_of_the_sla_names_the_run_to_see(
    waited: timedelta, changes: dict[str, Any], dag_and_run: tuple[str, str]
) -> None:
    incident = find_incidents(NOW, feed_state(waiting=(waits(waited),), **changes))[0]
    assert (incident.dag_id, incident.run_id) == dag_and_run


def test_an_incident_of_a_dag_names_it() -> None:
    paused = feed_state(watch_dag=activity(is_paused=True), publish_is_paused=True)
    assert [i.dag_id for i in find_incidents(NOW, paused)] == ["sales_watch", "sales_publish"]


LIVE = (Delivery(6, 1), Delivery(7, 1))
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
        (feed_state(watch_dag=activity(is_paused=True)), FreshnessStatus.STOPPED),
        (feed_state(pending_job=PENDING), FreshnessStatus.AT_RISK),  # only a warning
        (feed_state(**NOTHING), FreshnessStatus.EMPTY),
        (feed_state(included=LIVE, excluded=(Delivery(9, 1),)), FreshnessStatus.ROLLED_BACK),
        (feed_state(included=LIVE, excluded=(Delivery(5, 1),)), FreshnessStatus.FRESH),
        (feed_state(waiting=(waits(minutes(1)),), stopped=stopped(MANY_NEW)), FreshnessStatus.STOPPED),
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


LIVE_7 = "snapshot 7 (generation 7), which arrived 2026-06-15 10:00:00 UTC"


@pytest.mark.parametrize(
    ("state", "headline"),
    [
        (feed_state(), f"Readers see {LIVE_7}."),
        (feed_state(waiting=(waits(minutes(1)),)), f"Readers see {LIVE_7}; 1 delivery waits."),
        (feed_state(waiting=(waits(minutes(1)), waits(minutes(2), 9))), f"Readers see {LIVE_7}; 2 deliveries wait."),
        (
            feed_state(live=record(7, deliveries=(), taken_over=True)),
            "Readers see the table taken over 2026-06-15 10:00:00 UTC, up to update id 7 (generation 7).",
        ),
        (feed_state(live=None), "Readers see generation 7."),
        (
            feed_state(target=target(table(labels={"dedup_clone_generation": "5"}))),
            f"Readers see a table changed by hand ({table().rows} rows); published was {LIVE_7}.",
        ),
        (feed_state(target=target(None, table=None)), "Readers see an error: the table does not exist."),
        (feed_state(**NOTHING), "Readers see no table yet: nothing was published."),
    ],
    ids=["live", "one waits", "two wait", "taken over", "no record", "changed by hand", "gone", "nothing"],
)
def test_the_headline_says_what_readers_see(state: FeedState, headline: str) -> None:
    assert evaluate(NOW, state).headline == headline


def test_the_verdict_has_the_expected_arrivals_and_is_stale_after_three_checks_without_another() -> None:
    verdict = evaluate(NOW, feed_state(expected=DAILY, arrivals=(NOW - minutes(62),)))
    assert next(one.at for one in verdict.expected if one.at > NOW) == NOW + timedelta(hours=23)
    assert verdict.checked_at == NOW
    assert not verdict.is_stale(NOW + minutes(15))
    assert verdict.is_stale(NOW + minutes(15.1))
    assert evaluate(NOW, feed_state()).expected == ()


def test_an_incident_without_a_date_of_its_own_began_when_a_check_first_found_it() -> None:
    paused = feed_state(watch_dag=activity(is_paused=True))
    first = evaluate(NOW, paused)
    second = evaluate(NOW + minutes(20), paused, reported=first.incidents)
    assert [i.since for i in second.incidents] == [NOW]
    well = evaluate(NOW + minutes(25), feed_state(), reported=second.incidents)
    again = evaluate(NOW + minutes(30), paused, reported=well.incidents)
    assert [i.since for i in again.incidents] == [NOW + minutes(30)]
