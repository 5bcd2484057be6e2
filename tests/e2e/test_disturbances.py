"""Publishes while something around them is disturbed: Airflow is down, a region is down, or the reporting tables are.

However many markers land at once, each delivery gets a run of its own, and one swap publishes all of them.
"""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from testkit.stack import Stack
from testkit.waiting import wait_for
from tests.e2e.alerts import WATCHDOG
from tests.e2e.feeds import DISTURBED as FEED
from tests.e2e.landed_deliveries import Deliveries, wait_for_rows

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

AIRFLOW = ("scheduler", "triggerer", "dag_processor", "api_server")
OUTAGE_S = 60.0
STATUS_VIEW, LEDGER_TABLE = "warehouse.dedup_clone_status", "warehouse.dedup_clone_ledger"
CONFLICT = "Could not serialize access to table due to concurrent update"


@pytest.mark.parametrize("is_airflow_down", [False, True])
def test_markers_at_once_give_a_run_each_and_one_swap(
    stack: Stack, deliveries: Deliveries, is_airflow_down: bool
) -> None:
    deliveries.publish(FEED)
    before = len(stack.ledger(FEED))
    with stack.stopped(*AIRFLOW) if is_airflow_down else nullcontext():
        runs = deliveries.land(FEED, 12)
    stack.wait_until_healthy()
    stack.assert_published(FEED, *runs)
    deliveries.assert_consistent(FEED)
    assert len(stack.ledger(FEED)) == before + 1


def test_a_publish_goes_on_after_its_region_was_down(stack: Stack, deliveries: Deliveries) -> None:
    runs = deliveries.land(FEED)
    wait_for(lambda: stack.current(FEED)["intent"], f"run {runs} has the lease")
    with stack.stopped("bigquery", "fake_gcs"):
        time.sleep(OUTAGE_S)
    stack.assert_published(FEED, *runs)
    stack.wait_until_healthy()
    deliveries.assert_consistent(FEED)


def assert_reported(stack: Stack, deliveries: Deliveries, publishes_before: int = 0) -> None:
    """The ledger table has every publish since it was made, once. The watchdog adds what a publish could not."""

    def are_loaded() -> bool:
        stack.run(WATCHDOG)
        return not stack.state_names("_reporting/ledger/")

    wait_for(are_loaded, "no row waits for the ledger table", 600, poll_interval_s=20)  # failed loads have pauses
    deliveries.assert_consistent(FEED)
    published = [record["attempt"] for record in stack.ledger(FEED) if record["outcome"] == "published"]
    sql = f"SELECT attempt FROM {LEDGER_TABLE} WHERE feed = '{FEED}' AND outcome = 'published'"
    wait_for_rows(stack, sql, published[publishes_before:])


@pytest.mark.parametrize(
    ("effect", "fault"),
    [
        ("error", {"reason": "rateLimitExceeded"}),
        ("error", {"reason": "invalidQuery", "message": CONFLICT, "times": 2}),
        ("delay", {"seconds": 40.0, "times": 2}),
    ],
    ids=["rate limits", "conflicts", "slow loads"],
)
def test_reporting_tables_get_every_row_once_though_their_loads_fail(
    stack: Stack, deliveries: Deliveries, effect: str, fault: dict[str, object]
) -> None:
    with stack.fault("-ledger-", effect, **fault):
        deliveries.publish(FEED)
    assert_reported(stack, deliveries)


def test_reporting_tables_that_somebody_drops_or_replaces_are_made_again(stack: Stack, deliveries: Deliveries) -> None:
    for statements in (("DROP TABLE {}",), ("DROP TABLE {}", "CREATE TABLE {} (feed STRING)")):
        before = sum(record["outcome"] == "published" for record in stack.ledger(FEED))
        for statement in statements:
            stack.query(statement.format(LEDGER_TABLE))
        stack.bigquery.delete_table(STATUS_VIEW, not_found_ok=True)
        deliveries.publish(FEED)
        assert_reported(stack, deliveries, before)
