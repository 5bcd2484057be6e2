"""A publish that takes longer than its freshness SLA, and a snapshot that is overdue: who is told, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from testkit.stack import Stack
from testkit.stack_snapshots import row
from testkit.waiting import wait_for
from tests.e2e.alerts import LATE, Watchdog
from tests.e2e.feeds import HELD_BACK, SLA_MINUTES, SLOWED, TODAY

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

ROW = row(TODAY, 1, 10, 1)


@dataclass(frozen=True)
class SlowPublish:
    """A publish whose load job stays in BigQuery's queue until `waiting` is closed."""

    run_id: str
    waiting: ExitStack


@pytest.fixture(scope="module")
def slow(stack: Stack, watchdog: Watchdog) -> Iterator[SlowPublish]:
    """It has the lease, and the watchdog has checked once: the same check finds the other feed's overdue snapshot."""
    with ExitStack() as waiting:
        waiting.enter_context(stack.fault(f"dedup_clone-{SLOWED}-.*-load-", "queue"))
        run_id = stack.land(SLOWED, 1, [ROW])
        watchdog.check()
        wait_for(lambda: "-load-" in str(stack.current(SLOWED)["intent"]), "the slowed load is inserted")
        yield SlowPublish(run_id, waiting)


@pytest.fixture(scope="module")
def late_view(slow: SlowPublish, stack: Stack, watchdog: Watchdog) -> dict[str, Any]:
    """The slowed feed on the page right after its miss."""
    watchdog.check_until(SLOWED, f"ALERT: {LATE}")
    return stack.on_the_page(SLOWED)


@pytest.fixture(scope="module")
def ended(late_view: dict[str, Any], slow: SlowPublish, stack: Stack, watchdog: Watchdog) -> SlowPublish:
    """The slowed publish has ended, the late snapshot has come, and the watchdog has checked until nothing is left."""
    slow.waiting.close()
    stack.assert_published(SLOWED, slow.run_id)
    stack.assert_published(HELD_BACK, stack.land(HELD_BACK, 1, [ROW]))
    watchdog.check_until(SLOWED, f"RECOVERED: {LATE}")
    watchdog.check_until(HELD_BACK, "RECOVERED: arrival_overdue")
    watchdog.check()
    return slow


def test_the_first_task_of_a_rollback_waits_for_the_end_of_a_publish(slow: SlowPublish, stack: Stack) -> None:
    run_id = stack.start(f"{SLOWED}_rollback", generation=1, reason="in the middle")
    wait_for(
        lambda: stack.task_states(SLOWED, run_id, "rollback").get("show_difference") == "deferred", "the rollback waits"
    )
    assert f"run [{slow.run_id}]" in stack.task_log(SLOWED, run_id, "show_difference", "rollback")
    path = f"api/v2/dags/{SLOWED}_rollback/dagRuns/{run_id}"
    assert stack.ask("PATCH", path, body={"state": "failed"}).status == 200


def test_the_page_says_late_while_readers_wait(late_view: dict[str, Any]) -> None:
    assert late_view["freshness"]["status"] == "late"
    assert late_view["freshness"]["incidents"][0]["name"] == LATE


def test_a_slowed_publish_is_one_warning_one_miss_one_recovery(ended: SlowPublish, watchdog: Watchdog) -> None:
    about_the_sla = [title for title in watchdog.alerts(SLOWED) if title.endswith(f" {LATE}")]
    assert about_the_sla == [f"WARNING: {LATE}", f"ALERT: {LATE}", f"RECOVERED: {LATE}"]


def test_a_snapshot_held_back_is_reported_once_and_once_that_it_came(ended: SlowPublish, watchdog: Watchdog) -> None:
    assert watchdog.alerts(HELD_BACK) == ["ALERT: arrival_overdue", "RECOVERED: arrival_overdue"]


def test_the_miss_is_on_record_and_on_the_page(ended: SlowPublish, stack: Stack) -> None:
    (record,) = stack.ledger(SLOWED)
    assert record["lag_s"] > SLA_MINUTES * 60
    view = stack.wait_for_page(SLOWED, lambda view: view["freshness"]["status"] == "fresh", "a fresh feed")
    assert view["publishes"][-1]["lag_s"] == record["lag_s"]
