"""Every check, as a table: the state of a feed and its incidents, and what these say."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.checks.check_result import CheckResult, Level
from dedup_clone.freshness.evaluation import find_incidents
from dedup_clone.freshness.feed_state import FeedState, PendingJob, ReportedMarker
from dedup_clone.freshness.incident import STOPPED_BY_CHECK, IncidentKind
from dedup_clone.settings.freshness_settings import ExpectedArrivals
from dedup_clone.state.audits import AuditOutcome
from dedup_clone.state.current import IntentKind
from tests.shared.freshness_states import (
    CLONED_AT,
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

EQUAL, UNEQUAL, OVER_BUDGET = AuditOutcome.EQUAL, AuditOutcome.UNEQUAL, AuditOutcome.OVER_BUDGET
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
    "it waits, and will not make it": (feed_state(waiting=(waits(minutes(31)),)), ["promise_at_risk"]),
    "its run is half way": (feed_state(waiting=(waits(minutes(40)),), current=current(intent(minutes(12)))), []),
    "its run is slow": (
        feed_state(waiting=(waits(minutes(51)),), current=current(intent(minutes(46)))),
        ["promise_at_risk"],
    ),
    "its run loads in time": (
        feed_state(waiting=(waits(minutes(49)),), current=current(intent(minutes(44), "sales-8-x-load-1"))),
        [],
    ),
    "its run loads too late": (
        feed_state(waiting=(waits(minutes(51)),), current=current(intent(minutes(46), "sales-8-x-load-1"))),
        ["promise_at_risk"],
    ),
    "a rollback is in its way": (
        feed_state(waiting=(waits(minutes(31)),), current=current(intent(minutes(1), kind=IntentKind.ROLLBACK))),
        ["promise_at_risk"],
    ),
    "there is no baseline yet: half the SLA counts": (
        feed_state(waiting=(waits(minutes(26)),), history=(record(),)),
        ["promise_at_risk"],
    ),
    "its last attempt failed": (
        feed_state(waiting=(waits(minutes(1)),), failures=(record(8, reason="check [new_share] failed"),)),
        ["promise_at_risk"],
    ),
    "its last attempt failed, and a publish is running": (
        feed_state(
            waiting=(waits(minutes(1)),), failures=(record(8, reason="dead"),), current=current(intent(minutes(0)))
        ),
        [],
    ),
    "its run waits for an approval": (
        feed_state(waiting=(waits(minutes(1)),), current=current(replace(intent(minutes(0)), waits_for_approval=True))),
        ["promise_at_risk"],
    ),
    "its run failed before it acquired the lease, and is repeated": (
        feed_state(waiting=(waits(minutes(1)),), failed_run=REPEATED),
        ["promise_at_risk"],
    ),
    "its run failed and could not give the lease back": (
        feed_state(
            waiting=(waits(minutes(1)),),
            failed_run=REPEATED,
            current=current(replace(intent(minutes(0)), run_id=REPEATED.run_id)),
            lease_holder_running=False,
        ),
        ["promise_at_risk"],
    ),
    "an attempt of another delivery failed": (
        feed_state(waiting=(waits(minutes(1)),), failures=(record(6, reason="dead"),)),
        [],
    ),
    "the SLA is missed": (feed_state(waiting=(waits(minutes(60.1)),)), ["promise_missed"]),
    "the oldest counts": (feed_state(waiting=(waits(minutes(1), 9), waits(minutes(61), 8))), ["promise_missed"]),
    "it counts although it is not registered": (
        feed_state(waiting=(waits(minutes(61), registered=False),)),
        ["promise_missed", "watch_idle"],
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
    "older than tolerated": (feed_state(max_age_minutes=119), ["target_too_old"]),
    "as old as tolerated": (feed_state(max_age_minutes=120), []),
    # -- DAGs and lease
    "watch is paused": (feed_state(watch_dag=activity(is_paused=True, has_active_run=False)), ["watch_paused"]),
    "watch failed, and failed since": (feed_state(watch_dag=activity(failed_at=NEW_FAILURE)), ["watch_failing"]),
    "watch failed, and has recovered": (feed_state(watch_dag=activity(failed_at=OLD_FAILURE)), []),
    "watch failed, and a later run waits for a marker": (
        feed_state(watch_dag=activity(failed_at=NEW_FAILURE, is_deferred=True)),
        [],
    ),
    "watch has a run that does not register what has landed": (
        feed_state(watch_dag=activity(is_deferred=True), waiting=(waits(minutes(11), registered=False),)),
        ["watch_idle"],
    ),
    "watch has a run that may still register what has landed": (
        feed_state(watch_dag=activity(), waiting=(waits(minutes(9), registered=False),)),
        [],
    ),
    "watch failed and was not started again": (
        feed_state(watch_dag=activity(failed_at=NOW - minutes(11), has_active_run=False)),
        ["watch_failing", "watch_idle"],
    ),
    "watch is between two runs": (
        feed_state(watch_dag=activity(has_active_run=False, succeeded_at=NOW - minutes(1))),
        [],
    ),
    "watch is not scheduled any more": (feed_state(watch_dag=activity(has_active_run=False)), ["watch_idle"]),
    "watch is new": (feed_state(watch_dag=activity(has_active_run=False, succeeded_at=None)), []),
    "watch never ran although a marker waits": (
        feed_state(
            watch_dag=activity(has_active_run=False, succeeded_at=None), waiting=(waits(minutes(11), registered=False),)
        ),
        ["watch_idle"],
    ),
    "Airflow does not know the DAGs yet": (feed_state(watch_dag=None, publish_dag=None), []),
    "no run is left for a delivery that waits": (
        feed_state(failed_run=GIVEN_UP),
        ["publish_failed"],
    ),
    "publish is paused": (feed_state(publish_dag=activity("sales_publish", is_paused=True)), ["publish_paused"]),
    "the lease is held for a while": (feed_state(current=current(intent(minutes(59)))), []),
    "a dead run holds the lease, and none comes to recover its attempt": (
        feed_state(current=current(intent(minutes(1))), lease_holder_running=False),
        ["lease_held"],
    ),
    "a dead run holds the lease, and the run of a waiting delivery recovers its attempt": (
        feed_state(current=current(intent(minutes(1))), lease_holder_running=False, waiting=(waits(minutes(2)),)),
        ["promise_at_risk"],
    ),
    "a dead run holds the lease although deliveries wait": (
        feed_state(current=current(intent(minutes(61))), lease_holder_running=False, waiting=(waits(minutes(1)),)),
        ["promise_at_risk", "lease_held"],
    ),
    "a running run may take longer": (feed_state(current=current(intent(minutes(119))), lease_holder_running=True), []),
    "a run that waits for approval yields the lease": (
        feed_state(current=current(replace(intent(minutes(121)), waits_for_approval=True)), lease_holder_running=True),
        [],
    ),
    "a running run holds the lease too long": (
        feed_state(current=current(intent(minutes(121))), lease_holder_running=True),
        ["lease_held"],
    ),
    "a job waits, but not for long": (feed_state(pending_job=PendingJob("load-1", NOW - minutes(9), False)), []),
    "a job waits for more than a sixth of the SLA": (
        feed_state(pending_job=PendingJob("load-1", NOW - minutes(11), False)),
        ["job_pending"],
    ),
    # -- records
    "CURRENT was deleted": (
        feed_state(live=None, history=(), current=current(generation=None), target=None, lost_record="sales/CURRENT"),
        ["records_lost"],
    ),
    "the ledger record of the live generation was deleted": (
        feed_state(lost_record="sales/ledger/00000007-a.json"),
        ["records_lost"],
    ),
    # -- target
    "target is gone": (feed_state(target=target(None, table=None)), ["target_drift"]),
    "target is a table of its own": (
        feed_state(target=target(table(clone_of=None, clone_time=None))),
        ["target_drift"],
    ),
    "target is a clone of something else": (feed_state(target=target(table(clone_of="other"))), ["target_drift"]),
    "target was cloned at another time": (feed_state(target=target(table(clone_time=NOW))), ["target_drift"]),
    "the recorded time of the clone has microseconds, the shown one milliseconds": (
        feed_state(target=target(cloned_at=CLONED_AT.replace(microsecond=7))),
        [],
    ),
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
        ["lease_held"],
    ),
    "target is of an older generation while a run is running": (
        feed_state(current=current(intent(minutes(9))), target=target(table(labels={"dedup_clone_generation": "6"}))),
        ["target_drift"],
    ),
    "a materialized view reads target": (
        feed_state(target=target(materialized_views=("totals",))),
        ["target_materialized_view"],
    ),
    # -- contents
    "a partition was audited and is equal": (feed_state(audits=audits(EQUAL)), []),
    "a partition holds other values": (feed_state(audits=audits(EQUAL, UNEQUAL)), ["content_unequal-2026-06-02"]),
    "a partition was too large to audit": (feed_state(audits=audits(OVER_BUDGET)), []),
    # -- deliveries
    "two deliveries were refused": (
        feed_state(refused=(refused(8), refused(9))),
        ["delivery_refused-8-1", "delivery_refused-9-1"],
    ),
    "a delivery is held": (feed_state(held=(held(8),)), ["delivery_held-8-1"]),
    "a check after the swap failed": (feed_state(failed_after_swap=(MANY_NEW,)), ["checks_failed_after_swap-7"]),
    "a marker names no delivery": (
        feed_state(invalid_markers=(ReportedMarker(4711, "no id", NOW),)),
        ["marker_misnamed-4711"],
    ),
}


@pytest.mark.parametrize("case", CASES, ids=lambda name: name.replace(" ", "_"))
def test_the_incidents_of_a_state(case: str) -> None:
    known, expected = CASES[case]
    assert [incident.name for incident in find_incidents(NOW, known)] == expected


def test_each_kind_has_a_check_but_those_that_are_found_elsewhere() -> None:
    """A deadline reports a late replay, another environment's watchdog its silence, and a DAG tests the notifiers.

    A feed whose file is invalid, or that cannot be checked, has no state; tables of all feeds belong to none.
    """
    seen = {incident.kind for known, _ in CASES.values() for incident in find_incidents(NOW, known)}
    elsewhere = {
        IncidentKind.REPLAY_LATE,
        IncidentKind.ENVIRONMENT_SILENT,
        IncidentKind.ALERT_TEST,
        IncidentKind.FEED_FILE_INVALID,
        IncidentKind.FEED_NOT_CHECKED,
        IncidentKind.ROWS_NOT_LOADED,
    }
    assert set(IncidentKind) - seen == elsewhere


@pytest.mark.parametrize("case", CASES, ids=lambda name: name.replace(" ", "_"))
def test_each_incident_says_what_readers_see_since_when_and_what_to_do(case: str) -> None:
    for incident in find_incidents(NOW, CASES[case][0]):
        assert incident.what
        assert incident.readers_see
        assert incident.next_step.endswith(".")
        assert incident.since <= NOW


def test_a_missed_sla_names_snapshot_elapsed_time_and_progress() -> None:
    held = current(intent(minutes(40), "sales-8-x-load-1"))
    (missed,) = find_incidents(NOW, feed_state(waiting=(waits(minutes(75)),), current=held))
    assert "snapshot 8 arrived 2026-06-15 10:45:00 UTC, 75 min ago, and is not live" in missed.what
    assert "Run [run-8] has held the lease for 40 min; last step: sales-8-x-load-1." in missed.what
    assert missed.since == NOW - minutes(15)
    assert missed.readers_see.startswith("snapshot 7 (generation 7), which arrived 2026-06-15 10:00:00 UTC")


def test_a_failed_attempt_is_named_with_its_reason() -> None:
    failed = (record(8, reason="check [new_share] failed"),)
    (incident,) = find_incidents(NOW, feed_state(waiting=(waits(minutes(75)),), failures=failed))
    assert "The last attempt failed: check [new_share] failed." in incident.what


def test_a_publish_that_waits_for_a_person_says_for_what() -> None:
    stopped = feed_state(
        waiting=(waits(minutes(1)),), failures=(record(8, reason="stopped"),), failed_checks=(MANY_NEW,)
    )
    (incident,) = find_incidents(NOW, stopped)
    assert "replay it and accept [new_share] with a reason" in incident.next_step
    assert STOPPED_BY_CHECK in incident.what
    asked = current(replace(intent(minutes(1)), waits_for_approval=True))
    (incident,) = find_incidents(NOW, replace(stopped, current=asked))
    assert "Run [run-8] waits for an approval." in incident.what
    assert incident.next_step.startswith("approve or reject")


def test_a_check_that_cannot_be_accepted_says_what_to_do_itself() -> None:
    gone = CheckResult("target_is_parent", Level.FAIL, "absent", "generation 7", "restore target.")
    stopped = feed_state(
        waiting=(waits(minutes(75)),), failures=(record(8, reason="stopped"),), failed_checks=(MANY_NEW, gone)
    )
    (incident,) = find_incidents(NOW, stopped)
    assert incident.next_step == "[target_is_parent]: restore target."


@pytest.mark.parametrize("waited", [minutes(59), minutes(61)], ids=str)
@pytest.mark.parametrize(
    ("changes", "dag_and_run"),
    [
        ({"current": current(intent(minutes(20)))}, ("sales_publish", "run-8")),
        ({"failed_run": GIVEN_UP}, ("sales_publish", "publish__8__1__4")),
        ({"failures": (record(8, reason="stopped"),)}, ("sales_publish", "publish__8__1")),
        ({}, ("", "")),
    ],
    ids=["the lease is held", "a run failed", "an attempt failed", "no run"],
)
def test_an_incident_of_the_sla_names_the_run_to_see(
    waited: timedelta, changes: dict[str, Any], dag_and_run: tuple[str, str]
) -> None:
    incident = find_incidents(NOW, feed_state(waiting=(waits(waited),), **changes))[0]
    assert (incident.dag_id, incident.run_id) == dag_and_run


def test_an_incident_of_a_dag_names_it() -> None:
    paused = feed_state(watch_dag=activity(is_paused=True), publish_dag=activity("sales_publish", is_paused=True))
    assert [i.dag_id for i in find_incidents(NOW, paused)] == ["sales_watch", "sales_publish"]


def test_a_lease_blocks_others_only_while_its_run_is_running() -> None:
    dead = feed_state(current=current(intent(minutes(121))), lease_holder_running=False)
    for state, words in (
        (dead, "is not running any more: nothing is published until another run recovers its attempt."),
        (replace(dead, lease_holder_running=True), "is running: nothing else can be published."),
    ):
        (incident,) = [i for i in find_incidents(NOW, state) if i.kind is IncidentKind.LEASE_HELD]
        assert incident.what.endswith(words)


def test_what_remains_is_said_to_be_usual_only_if_it_was_measured() -> None:
    measured, assumed = feed_state(waiting=(waits(minutes(31)),)), feed_state(waiting=(waits(minutes(31)),), history=())
    for state, words in (
        (measured, "what remains usually takes 25 min"),
        (assumed, "what remains is assumed to take 30 min"),
    ):
        (incident,) = find_incidents(NOW, state)
        assert words in incident.what


def test_a_snapshot_that_a_check_stopped_has_its_evidence_and_the_two_ways_on_in_the_alert() -> None:
    (incident,) = [
        i
        for i in find_incidents(NOW, feed_state(failed_checks=(MANY_NEW,), failed_run=GIVEN_UP))
        if i.kind is IncidentKind.PUBLISH_FAILED
    ]
    assert incident.what.endswith("new_share: 5 of 10 rows new, expected at most 20.00% as configured.")
    assert "accept [new_share] with a reason" in incident.next_step
    assert "If it is wrong, discard it there: later snapshots are published without it." in incident.next_step
    assert (incident.dag_id, incident.run_id) == ("sales_publish", "publish__8__1__4")


def test_a_statement_that_waits_names_dml_and_a_job_names_slots() -> None:
    ((statement,), (job,)) = (
        find_incidents(NOW, feed_state(pending_job=PendingJob("merge-1", NOW - minutes(30), is_statement)))
        for is_statement in (True, False)
    )
    assert "[merge-1] has been PENDING for 30 min, 50% of the freshness SLA" in statement.what
    assert ("DML statements on staging" in statement.next_step, "slots" in job.next_step) == (True, True)
    assert statement.since == NOW - minutes(20)


def test_after_a_failed_attempt_the_next_step_is_in_its_log_and_not_to_watch_a_run() -> None:
    (failed,) = find_incidents(NOW, feed_state(waiting=(waits(minutes(1)),), failures=(record(8, reason="ended"),)))
    assert "clear that run from its first task" in failed.next_step
    (slow,) = find_incidents(NOW, feed_state(waiting=(waits(minutes(31)),)))
    assert "watch the publish run" in slow.next_step
