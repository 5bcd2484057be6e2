"""Every judgement, as a table: facts in, incidents out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.facts import Facts, MisnamedMarker, RefusedDelivery
from dedup_clone.freshness.incident import Kind
from dedup_clone.freshness.judge import judge
from dedup_clone.settings.freshness import ExpectedArrivals
from dedup_clone.state.audits import AuditOutcome
from dedup_clone.state.current import IntentKind
from tests.unit.freshness.facts import (
    NOW,
    activity,
    audits,
    current,
    facts,
    intent,
    minutes,
    record,
    table,
    target,
    waits,
)

EQUAL, UNEQUAL, OVER_BUDGET = AuditOutcome.EQUAL, AuditOutcome.UNEQUAL, AuditOutcome.OVER_BUDGET
DAILY = ExpectedArrivals(times=("11:00",), zone="UTC", grace_minutes=30)
OLD_FAILURE, NEW_FAILURE = NOW - minutes(40), NOW - minutes(3)

CASES: dict[str, tuple[Facts, list[str]]] = {
    "all is well": (facts(), []),
    "nothing was ever published": (
        facts(live=None, history=(), arrivals=(), current=current(generation=None), target=target(table(labels={}))),
        [],
    ),
    # -- the promise: 25 minutes usually pass between lease and swap, the next look comes in 5
    "a delivery has just come": (facts(waiting=(waits(minutes(1)),)), []),
    "it waits, and may just make it": (facts(waiting=(waits(minutes(30)),)), []),
    "it waits, and will not make it": (facts(waiting=(waits(minutes(31)),)), ["promise_at_risk"]),
    "its run is half way": (facts(waiting=(waits(minutes(40)),), current=current(intent(minutes(12)))), []),
    "its run is slow": (
        facts(waiting=(waits(minutes(51)),), current=current(intent(minutes(46)))),
        ["promise_at_risk"],
    ),
    "its run loads in time": (
        facts(waiting=(waits(minutes(49)),), current=current(intent(minutes(44), "sales-8-x-load-1"))),
        [],
    ),
    "its run loads too late": (
        facts(waiting=(waits(minutes(51)),), current=current(intent(minutes(46), "sales-8-x-load-1"))),
        ["promise_at_risk"],
    ),
    "a rollback is in its way": (
        facts(waiting=(waits(minutes(31)),), current=current(intent(minutes(1), kind=IntentKind.ROLLBACK))),
        ["promise_at_risk"],
    ),
    "nothing is usual yet: half the promise is taken for it": (
        facts(waiting=(waits(minutes(26)),), history=(record(),)),
        ["promise_at_risk"],
    ),
    "the promise is missed": (facts(waiting=(waits(minutes(60.1)),)), ["promise_missed"]),
    "the oldest counts": (facts(waiting=(waits(minutes(1), 9), waits(minutes(61), 8))), ["promise_missed"]),
    "it counts although nobody noticed it": (
        facts(waiting=(waits(minutes(61), registered=False),)),
        ["promise_missed"],
    ),
    # -- arrivals and age
    "expected, and there": (facts(expected=DAILY, arrivals=(NOW - minutes(62),)), []),
    "expected, and tolerably late": (
        facts(expected=ExpectedArrivals(times=("11:45",)), arrivals=(NOW - timedelta(hours=24),)),
        [],
    ),
    "expected, and overdue": (facts(expected=DAILY, arrivals=(NOW - timedelta(hours=24),)), ["arrival_overdue"]),
    "expected, and there never was one": (
        facts(expected=DAILY, arrivals=(), live=None, history=(), current=current(generation=None)),
        ["arrival_overdue"],
    ),
    "older than tolerated": (facts(max_age_minutes=119), ["target_too_old"]),
    "as old as tolerated": (facts(max_age_minutes=120), []),
    # -- those who do the work
    "watch is paused": (facts(watch=activity(paused=True, at_work=False)), ["watch_paused"]),
    "watch failed, and failed since": (facts(watch=activity(failed_at=NEW_FAILURE)), ["watch_failing"]),
    "watch failed, and has recovered": (facts(watch=activity(failed_at=OLD_FAILURE)), []),
    "watch failed and was not started again": (
        facts(watch=activity(failed_at=NOW - minutes(11), at_work=False)),
        ["watch_failing", "watch_idle"],
    ),
    "watch is between two runs": (facts(watch=activity(at_work=False, succeeded_at=NOW - minutes(1))), []),
    "watch is not scheduled any more": (facts(watch=activity(at_work=False)), ["watch_idle"]),
    "watch is new": (facts(watch=activity(at_work=False, succeeded_at=None)), []),
    "watch never ran although a marker waits": (
        facts(watch=activity(at_work=False, succeeded_at=None), waiting=(waits(minutes(11), registered=False),)),
        ["watch_idle"],
    ),
    "Airflow does not know the DAGs yet": (facts(watch=None, publish=None), []),
    "publish is paused": (facts(publish=activity("sales_publish", paused=True)), ["publish_paused"]),
    "the lease is held for a while": (facts(current=current(intent(minutes(59)))), []),
    "a dead run holds the lease": (facts(current=current(intent(minutes(61)))), ["lease_held"]),
    "a run at work may take longer": (facts(current=current(intent(minutes(119))), holder_runs=True), []),
    "a run that waits for approval gives way": (
        facts(current=current(replace(intent(minutes(121)), waits_for_approval=True)), holder_runs=True),
        [],
    ),
    "a run at work holds the lease too long": (
        facts(current=current(intent(minutes(121))), holder_runs=True),
        ["lease_held"],
    ),
    # -- target
    "target is gone": (facts(target=target(None, table=None)), ["target_drift"]),
    "target is a table of its own": (
        facts(target=target(table(clone_of=None, clone_time=None))),
        ["target_drift"],
    ),
    "target is a clone of something else": (facts(target=target(table(clone_of="other"))), ["target_drift"]),
    "target was cloned at another time": (facts(target=target(table(clone_time=NOW))), ["target_drift"]),
    "nobody recorded when target was cloned": (facts(target=target(table(clone_time=NOW), cloned_at=None)), []),
    "a label was changed": (facts(target=target(table(labels={"dedup_clone_generation": "7"}))), ["target_drift"]),
    "the expiration was taken off": (facts(target=target(table(expiration_days=None))), ["target_drift"]),
    "target is newer than CURRENT while its run commits": (
        facts(
            current=current(intent(minutes(9))),
            target=target(table(labels={"dedup_clone_generation": "8"}, clone_time=NOW)),
        ),
        [],
    ),
    "target is of an older generation while a run is at work": (
        facts(current=current(intent(minutes(9))), target=target(table(labels={"dedup_clone_generation": "6"}))),
        ["target_drift"],
    ),
    "a materialised view reads target": (
        facts(target=target(materialized_views=("totals",))),
        ["target_materialized_view"],
    ),
    # -- contents
    "a partition was audited and is equal": (facts(audits=audits(EQUAL)), []),
    "a partition holds other values": (facts(audits=audits(EQUAL, UNEQUAL)), ["content_unequal-2026-06-02"]),
    "a partition was too large to audit": (facts(audits=audits(OVER_BUDGET)), []),
    # -- deliveries
    "two deliveries were refused": (
        facts(refused=tuple(RefusedDelivery(Delivery(n, 1), "NULL keys", NOW) for n in (8, 9))),
        ["delivery_refused-8-1", "delivery_refused-9-1"],
    ),
    "a marker is misnamed": (facts(misnamed=(MisnamedMarker(4711, "no id", NOW),)), ["marker_misnamed-4711"]),
}


@pytest.mark.parametrize("case", CASES, ids=lambda name: name.replace(" ", "_"))
def test_judge(case: str) -> None:
    known, expected = CASES[case]
    assert [incident.name for incident in judge(NOW, known)] == expected


def test_each_kind_is_judged_but_the_one_that_a_deadline_tells() -> None:
    seen = {incident.kind for known, _ in CASES.values() for incident in judge(NOW, known)}
    assert set(Kind) - seen == {Kind.REPLAY_LATE}


@pytest.mark.parametrize("case", CASES, ids=lambda name: name.replace(" ", "_"))
def test_each_incident_says_what_readers_see_since_when_and_what_to_do(case: str) -> None:
    for incident in judge(NOW, CASES[case][0]):
        assert incident.what
        assert incident.readers_see
        assert incident.next_step.endswith(".")
        assert incident.since <= NOW


def test_a_missed_promise_names_snapshot_elapsed_time_and_where_it_stands() -> None:
    held = current(intent(minutes(40), "sales-8-x-load-1"))
    (missed,) = judge(NOW, facts(waiting=(waits(minutes(75)),), current=held))
    assert "snapshot 8 arrived 2026-06-15 10:45:00 UTC, 75 min ago, and is not live" in missed.what
    assert "Run [run-8] holds the lease since 40 min; last step: sales-8-x-load-1." in missed.what
    assert missed.since == NOW - minutes(15)
    assert missed.readers_see.startswith("snapshot 7 (generation 7), which arrived 2026-06-15 10:00:00 UTC")
