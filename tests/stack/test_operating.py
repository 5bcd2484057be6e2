"""Freshness and rollbacks on the real stack: who is notified, what is on record, what is made and what is refused.

While one feed's publish is slowed beyond its SLA, the snapshot of another comes late and is rolled back: what takes
minutes goes on side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dedup_clone.freshness.incident import IncidentKind
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import StackClient
from testkit.waiting import wait_for
from tests.stack.extra_feeds import HELD_BACK, SLA_MINUTES, SLOWED
from tests.stack.rollbacks import Rollbacks, prune
from tests.stack.slowed_publish import SlowPublish, Watchdog

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

OPEN_APPROVALS = (
    f"api/v2/dags/~/dagRuns/~/hitlDetails?response_received=false&limit=100&dag_id_prefix_pattern={HELD_BACK}_rollback"
)


@pytest.fixture(scope="module")
def watchdog(stack: StackClient) -> Watchdog:
    return Watchdog(stack)


@pytest.fixture(scope="module")
def slow_publish(
    proxied_stack: ProxiedStack, stack: StackClient, watchdog: Watchdog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SlowPublish]:
    """Landed, and checked once: the same check finds the overdue snapshot of the other feed."""
    slow = SlowPublish(proxied_stack, stack, tmp_path_factory.mktemp("slowed") / "1")
    try:
        watchdog.run_watchdog()
        slow.wait_for_load()
        yield slow
    finally:
        slow.give_up()


@pytest.fixture(scope="module")
def rollbacks(
    slow_publish: SlowPublish, proxied_stack: ProxiedStack, stack: StackClient, tmp_path_factory: pytest.TempPathFactory
) -> Rollbacks:
    """The feed whose snapshot was overdue gets two."""
    return Rollbacks(proxied_stack, stack, tmp_path_factory.mktemp("snapshots"))


@pytest.fixture(scope="module")
def late_view(slow_publish: SlowPublish, watchdog: Watchdog, stack: StackClient) -> dict[str, Any]:
    """The slowed feed on the page right after its miss; the watchdog's last check was before it."""
    watchdog.wait_for(SLOWED, "ALERT: freshness SLA missed (promise_missed)")
    return stack.on_the_page(SLOWED)


@pytest.fixture(scope="module")
def ended(
    late_view: dict[str, Any], slow_publish: SlowPublish, rollbacks: Rollbacks, watchdog: Watchdog
) -> SlowPublish:
    """The slowed publish has ended, the late snapshot has come, and the watchdog has checked until nothing is left."""
    assert slow_publish.end() == "success"
    watchdog.run_watchdog_until(SLOWED, "RECOVERED: freshness SLA missed (promise_missed)")
    watchdog.run_watchdog_until(HELD_BACK, "RECOVERED: arrival_overdue")
    watchdog.run_watchdog()
    return slow_publish


def test_the_first_task_of_a_rollback_waits_for_the_end_of_a_publish(
    slow_publish: SlowPublish, stack: StackClient
) -> None:
    run_id = stack.started_run_id(stack.trigger(f"{SLOWED}_rollback", generation=1, reason="in the middle"))
    wait_for(
        lambda: stack.task_states(SLOWED, run_id, dag="rollback")["show_difference"] == "deferred", "the rollback waits"
    )
    assert f"run [{slow_publish.run_id}]" in stack.task_log(SLOWED, run_id, "show_difference", dag="rollback")
    path = f"api/v2/dags/{SLOWED}_rollback/dagRuns/{run_id}"
    assert stack.ask("PATCH", path, body={"state": "failed"}).status == 200


def test_of_two_rollbacks_at_once_one_is_made_the_other_refused_and_a_rejected_one_changes_nothing(
    rollbacks: Rollbacks,
) -> None:
    runs = [rollbacks.ask_for(rollbacks.good) for _ in range(3)]
    differences = [rollbacks.approvals.wait_for_question(run) for run in runs]
    wanted = f"from generation {rollbacks.regretted} to the content of {rollbacks.good}"
    assert all(wanted in difference for difference in differences), differences
    open_ones = rollbacks.stack.ask("GET", OPEN_APPROVALS).json()["hitl_details"]  # as the page asks
    assert {(one["task_instance"]["dag_run_id"], one["task_instance"]["state"]) for one in open_ones} == {
        (run, "awaiting_input") for run in runs
    }
    assert rollbacks.approvals.answer(runs[0], "Approve", user="vera") == 403
    answers = dict(zip(runs, ("Approve", "Approve", "Reject"), strict=True))
    assert [rollbacks.approvals.answer(run, option) for run, option in answers.items()] == [200, 200, 200]
    ends = {run: rollbacks.approvals.wait_for_end(run, answers[run]) for run in runs[:2]}
    assert sorted(ends.values()) == ["failed", "success"]
    (refused,) = (run for run, end in ends.items() if end == "failed")
    log = rollbacks.log_of(refused, "resolve_rollback")
    assert "is live by now" in log or "is being worked on by run" in log
    rollbacks.approvals.wait_for_end(runs[2], "Reject")
    assert rollbacks.stack.task_states(HELD_BACK, runs[2], dag="rollback")["resolve_rollback"] == "skipped"
    assert rollbacks.stack.rows(HELD_BACK) == rollbacks.good_rows
    assert rollbacks.live() == rollbacks.regretted + 1
    assert rollbacks.proxied_stack.ledger(HELD_BACK)[-1].restores == rollbacks.good


def test_generations_that_were_pruned_or_never_there_are_refused_with_those_that_can_be_restored(
    rollbacks: Rollbacks,
) -> None:
    pruned, unknown = rollbacks.regretted, 1_000_000
    prune(rollbacks.proxied_stack, pruned)
    runs = {generation: rollbacks.ask_for(generation) for generation in (pruned, unknown)}
    assert {rollbacks.approvals.wait_for_end(run) for run in runs.values()} == {"failed"}
    for generation in (pruned, unknown):
        log = rollbacks.log_of(runs[generation], "show_difference")
        assert f"Generation [{generation}] of [{HELD_BACK}] cannot be made live again" in log
        assert f"{rollbacks.good} (snapshot " in log.split("Choose one of: ")[1]
    assert rollbacks.stack.rows(HELD_BACK) == rollbacks.good_rows


@pytest.mark.parametrize(
    ("dag", "parameters"),
    [
        ("rollback", {"generation": "two"}),
        ("rollback", {"generation": 0}),
        ("rollback", {"reason": "why", "generation": None}),
        ("publish", {"snapshot_id": "newest"}),
        ("publish", {"snapshot_id": "1", "marker_generation": "x; DROP TABLE"}),
    ],
    ids=str,
)
def test_text_where_an_id_belongs_starts_no_run(stack: StackClient, dag: str, parameters: dict[str, Any]) -> None:
    answer = stack.trigger(f"{HELD_BACK}_{dag}", **parameters)
    assert answer.status == 400, answer.text
    assert next(iter(reversed(parameters))) in answer.text


def test_the_page_says_late_while_readers_wait(late_view: dict[str, Any]) -> None:
    assert late_view["freshness"]["status"] == "late"
    assert late_view["freshness"]["incidents"][0]["kind"] == "promise_missed"


def test_a_slowed_publish_is_one_warning_one_miss_one_recovery(ended: SlowPublish, watchdog: Watchdog) -> None:
    about_the_sla = [title for title in watchdog.alerts(SLOWED) if "promise" in title]
    at_risk, missed = IncidentKind.SLA_AT_RISK.label, IncidentKind.SLA_MISSED.label
    assert about_the_sla == [f"WARNING: {at_risk}", f"ALERT: {missed}", f"RECOVERED: {missed}"]


def test_a_snapshot_held_back_is_reported_once_and_once_that_it_came(ended: SlowPublish, watchdog: Watchdog) -> None:
    assert watchdog.alerts(HELD_BACK) == ["ALERT: arrival_overdue", "RECOVERED: arrival_overdue"]


def test_the_miss_is_on_record_and_on_the_page(
    ended: SlowPublish, proxied_stack: ProxiedStack, stack: StackClient
) -> None:
    (record,) = proxied_stack.ledger(SLOWED)
    assert record.lag_s is not None
    assert record.lag_s > SLA_MINUTES * 60
    assert [deadline["missed"] for deadline in ended.deadlines()] == [True]
    view = stack.wait_for_page(SLOWED, lambda view: view["freshness"]["status"] == "fresh", "a fresh feed")
    assert view["publishes"][-1]["lag_s"] == record.lag_s
