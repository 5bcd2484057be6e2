"""Publishes while something around them is disturbed: Airflow is down, a region is down, or the reporting tables are.

However many markers land at once, each delivery gets a run of its own, and one swap publishes all of them.
"""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest
from google.cloud.bigquery import SchemaField

from testkit.stack import Stack
from testkit.waiting import wait_for
from tests.e2e.deliveries import Deliveries, wait_for_rows
from tests.e2e.feeds import DISTURBED as FEED
from tests.e2e.watchdog import WATCHDOG

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

AIRFLOW = ("scheduler", "triggerer", "dag_processor", "api_server")
OUTAGE_S = 60.0
REPORTING_TABLES = ("warehouse.dedup_clone_status", "warehouse.dedup_clone_ledger")
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


class ReportingTables:
    """Publishes while the tables are disturbed. Both must have every publish since they were made, once."""

    def __init__(self, stack: Stack, deliveries: Deliveries) -> None:
        self._stack = stack
        self._deliveries = deliveries
        self._made_after = 0  # as many publishes

    def publish(self) -> None:
        self._deliveries.publish(FEED)

    def check(self) -> None:
        self._stack.run(WATCHDOG)  # writes what the publish could not
        self._deliveries.assert_consistent(FEED)
        published = [record["attempt"] for record in self._stack.ledger(FEED) if record["outcome"] == "published"]
        sql = f"SELECT attempt FROM {REPORTING_TABLES[1]} WHERE feed = '{FEED}' AND outcome = 'published'"
        wait_for_rows(self._stack, sql, published[self._made_after :])

    def add_columns(self) -> None:
        for name in REPORTING_TABLES:
            table = self._stack.bigquery.get_table(name)
            table.schema = [*table.schema, SchemaField("note", "STRING")]
            self._stack.bigquery.update_table(table, ["schema"])

    def drop(self) -> None:
        self._made_after = len(self._stack.ledger(FEED))
        for name in REPORTING_TABLES:
            self._stack.query(f"DROP TABLE IF EXISTS {name}")

    def make_with_one_column(self) -> None:
        self.drop()
        for name in REPORTING_TABLES:
            self._stack.query(f"CREATE TABLE {name} (feed STRING)")


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
    tables = ReportingTables(stack, deliveries)
    with stack.fault("reporting-.*-(status|ledger)", effect, **fault):
        tables.publish()
    tables.check()


def test_reporting_tables_get_every_row_once_though_somebody_changes_them(stack: Stack, deliveries: Deliveries) -> None:
    tables = ReportingTables(stack, deliveries)
    tables.publish()
    for disturb in (tables.add_columns, tables.drop, tables.make_with_one_column):
        disturb()
        tables.publish()
        tables.check()
