"""Disturbs the reporting tables while a feed publishes (command `side-tables`).

The reporting tables are dedup_clone_status and dedup_clone_ledger; see docs/adr/0014-reporting-tables.md. A load into
them fails or is slow, or their columns change, or they are dropped. No publish may fail, and no row may be missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from google.cloud.bigquery import SchemaField

from dedup_clone.publish.records.ledger_table import LEDGER_TABLE
from dedup_clone.publish.records.status_table import STATUS_TABLE
from dedup_clone.state.ledger import Outcome
from devstack.demo.delivery_progress import publish_run_id
from soak.consistency import STATUS_TIMEOUT_S, find_problems, query_rows
from soak.delivery_producer import DeliveryProducer
from soak.report import Section
from testkit.proxied_stack import EXAMPLE, ProxiedStack, log
from testkit.stack_client import StackClient
from testkit.waiting import wait_for

TIMEOUT_S = 900.0
WATCHDOG = "freshness_watchdog"
# Faults of the stand-in (docs/stand-in.md) in jobs that write the reporting tables.
REPORTING_LOADS = {"job_id": "reporting-.*-(status|ledger)"}
RATE_LIMIT = {"match": REPORTING_LOADS, "effect": "error", "reason": "rateLimitExceeded", "times": 1000}
CONFLICT = {
    "match": REPORTING_LOADS,
    "effect": "error",
    "reason": "invalidQuery",
    "message": "Could not serialize access to table due to concurrent update",
    "times": 2,
}
SLOW_LOAD = {"match": REPORTING_LOADS, "effect": "delay", "seconds": 40.0, "times": 2}


class DisturbedPublishes:
    """Publishes `feed` once for each disturbance of the reporting tables.

    `disturbances`: the names of the disturbances so far. `problems`: sentences for the report.
    """

    def __init__(self, stack: ProxiedStack, deliveries: DeliveryProducer, feed: str) -> None:
        self.problems: list[str] = []
        self.disturbances: list[str] = []
        self._stack = stack
        self._client = StackClient(stack.layout.local)
        self._deliveries = deliveries
        self._feed = feed
        # The number of publishes since the ledger table was made, each of which has a row in it.
        self._expected_rows = len(self._published_attempts())

    def run(self) -> None:
        """Publish once without a disturbance, then once with each, and check the feed and the ledger table."""
        self._publish("nothing", lambda: None)
        for name, fault in (("rate limits", RATE_LIMIT), ("conflicts", CONFLICT), ("slow loads", SLOW_LOAD)):
            self._publish(name, lambda fault=fault: self._stack.add_fault(fault))  # type: ignore[misc]
        self._check_ledger_table()
        self._publish("added columns", self._add_columns)
        self._check_ledger_table()
        self._publish("dropped tables", self._drop_tables)
        self._check_ledger_table()
        self._publish("missing columns", self._recreate_with_one_column)
        self._check_ledger_table()

    def _publish(self, name: str, disturb: Callable[[], None]) -> None:
        """Publish one delivery while the tables are disturbed, end the disturbance, and check the feed.

        `name`: of the disturbance. `disturb`: begins it.
        """
        log(f"  disturbed by {name}")
        self.disturbances.append(name)
        disturb()
        run_id = publish_run_id(self._deliveries.land(self._feed))
        self._expected_rows += 1

        def has_ended() -> bool:
            return self._stack.run_state(self._feed, run_id) in ("success", "failed")

        wait_for(has_ended, f"run [{run_id}] has ended", TIMEOUT_S)
        if self._stack.run_state(self._feed, run_id) != "success":
            self.problems.append(f"{name}: run [{run_id}] failed")
        self._stack.clear_faults()
        self._run_watchdog()
        problems = find_problems(self._stack, self._feed, self._deliveries.landed[self._feed])
        self.problems += [f"{name}: {problem}" for problem in problems]

    def _run_watchdog(self) -> None:
        """Trigger the watchdog, which writes the rows that the publish could not, and wait for its run."""
        run_id = self._client.started_run_id(self._client.trigger(WATCHDOG))
        wait_for(lambda: self._client.final_state(WATCHDOG, run_id), "the watchdog's run has ended", TIMEOUT_S)

    def _published_attempts(self) -> list[str]:
        """The published attempts, the oldest first."""
        return [r.attempt for r in self._stack.ledger(self._feed) if r.outcome is Outcome.PUBLISHED]

    def _qualified_name(self, name: str) -> str:
        return f"{self._stack.connection.dataset}.{name}"

    def _add_columns(self) -> None:
        for name in (STATUS_TABLE, LEDGER_TABLE):
            table = self._stack.bigquery.get_table(self._qualified_name(name))
            table.schema = [*table.schema, SchemaField("note", "STRING")]
            self._stack.bigquery.update_table(table, ["schema"])

    def _drop_tables(self) -> None:
        for name in (STATUS_TABLE, LEDGER_TABLE):
            query_rows(self._stack, f"DROP TABLE {self._qualified_name(name)}")
        self._expected_rows = 0

    def _recreate_with_one_column(self) -> None:
        self._drop_tables()
        for name in (STATUS_TABLE, LEDGER_TABLE):
            query_rows(self._stack, f"CREATE TABLE {self._qualified_name(name)} (feed STRING)")

    def _check_ledger_table(self) -> None:
        """Wait until the ledger table has one row of each publish since the table was made; if not, add a problem."""
        table = self._qualified_name(LEDGER_TABLE)
        sql = f"SELECT attempt FROM {table} WHERE feed = '{self._feed}' AND outcome = 'published'"
        expected = self._published_attempts()[-self._expected_rows :]
        deadline = time.monotonic() + STATUS_TIMEOUT_S
        while (found := sorted(row["attempt"] for row in query_rows(self._stack, sql))) != expected:
            if time.monotonic() > deadline:
                self.problems.append(f"after {self.disturbances[-1]}: ledger table has {found}, expected {expected}")
                return
            time.sleep(1)


def run(stack: ProxiedStack, deliveries: DeliveryProducer) -> list[Section]:
    """Publish the worked example while the reporting tables are disturbed."""
    publishes = DisturbedPublishes(stack, deliveries, EXAMPLE)
    publishes.run()
    fact = f"{len(publishes.disturbances)} publishes, disturbed by {', '.join(publishes.disturbances)}"
    return [Section("Disturbed reporting tables", (fact,), tuple(publishes.problems))]
