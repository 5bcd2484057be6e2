"""Erases a customer on the real stack. Afterwards nothing that the stack has written may contain the customer.

The customer's name and the number of the customer's product are the erased values. Before the erasure they are in data
files, in tables (also in that of changes), in changes that wait to be loaded, and in the examples of a failed check.
After the erasure, snapshots that contain them are published and replayed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from dedup_clone.state.layout import FeedLayout
from devstack.http_calls import call
from soak.example_feeds import write_example_feed
from soak.small_snapshots import today
from soak.stack_search import find_places
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import COLUMNS, SCHEMA, Row, StackClient, row
from testkit.value_search import Value

FEED = "erased"
NAME_COLUMN = "customer"  # a key of type STRING, which Parquet encodes in another way than numbers
ERASED_NAME = "customer-8d1f6a07"
ERASED_PRODUCT = 1_234_567_890_123_456_789  # only in rows of the erased customer; no other number has its digits
# A fault of the stand-in: every load of the table of changes fails, so that changes stay in state.
FAILED_LOAD = {"match": {"job_id": f"{FEED}-.*-changes-"}, "effect": "error", "reason": "backendError", "times": 1000}
KEYS_FILE = "request-17.csv"
REASON = "request 17"
ERASED_VALUES: tuple[Value, ...] = (ERASED_NAME, ERASED_PRODUCT)
TIMEOUT_S = 900.0
# After this time nothing deleted can be restored: time travel and fail-safe of BigQuery are over, and Cloud Storage
# keeps no noncurrent version of a record.
RESTORE_PERIOD = timedelta(days=40)
# Each date has three keys: the customer's and these. A failed check shows three keys, so the customer's is among them.
OTHER_PRODUCTS = (1, 2)


def write_feed(dags: Path) -> None:
    """Write a feed file with the worked example's columns and one more key. A check fails if most rows change."""
    columns = [{"name": name, "type": "DATE" if name == "date" else "INT64"} for name in COLUMNS]
    table = {
        "columns": [*columns, {"name": NAME_COLUMN, "type": "STRING"}],
        "keys": ["date", "product_id", "store_id", "attribute_id", NAME_COLUMN],
    }
    write_example_feed(dags, FEED, table=table, checks={"max_changed_share": 0.5}, changes=True)


class ErasureRun:
    """Erases a customer, and then searches for the erased values. `facts`, `problems`: sentences for the report.

    `folder`: where the landed snapshots are written; its content is deleted.
    """

    def __init__(self, stack: ProxiedStack, client: StackClient, folder: Path) -> None:
        self.facts: list[str] = []
        self.problems: list[str] = []
        self._stack = stack
        self._client = client
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)

    def _expect(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(problem)

    def _publish(
        self, snapshot_id: int, value: int, erased_value: int | None = None, expected: str = "success"
    ) -> None:
        """Land a snapshot that has the customer on two dates, and wait for its run, which must end as `expected`.

        The rows have the value `value`; if `erased_value` is given, those of the customer have it instead.
        """
        names = {product: f"customer-{product:08}" for product in OTHER_PRODUCTS} | {ERASED_PRODUCT: ERASED_NAME}
        values = dict.fromkeys(names, value) | {ERASED_PRODUCT: value if erased_value is None else erased_value}
        rows: list[Row] = [
            {**row(day, product, values[product], snapshot_id), NAME_COLUMN: name}
            for day in (today() - timedelta(days=1), today())
            for product, name in names.items()
        ]
        schema = SCHEMA.append(pa.field(NAME_COLUMN, pa.string()))
        run_id = self._client.land(FEED, snapshot_id, rows, self._folder / str(snapshot_id), schema=schema)
        state = self._client.wait_for_run(FEED, run_id, timeout_s=TIMEOUT_S)
        self._expect(state == expected, f"run [{run_id}] of [{FEED}] ended as [{state}], expected [{expected}]")

    def _find(self, value: Value) -> list[str]:
        """Where the stack has written the value. Landing is left out, because the producer writes it."""
        layout = self._stack.layout
        landing = layout.gcs_data / self._stack.connection.landing_bucket
        return find_places(value, layout, excluded_folder=landing)

    def _products_of_changes(self) -> set[int]:
        sql = f"SELECT DISTINCT product_id FROM {self._stack.connection.dataset}.{FEED}_changes"
        return {found["product_id"] for found in self._client.bigquery.query_and_wait(sql)}

    def erase(self, run_approved: Callable[..., str]) -> None:
        """Publish the customer's rows, erase them, and publish and replay snapshots that contain them.

        `run_approved`: triggers a DAG and approves its run; it is soak.lifecycle.run_approved with its client bound.
        """
        self._publish(1, 10)
        # The check of the changed share fails, and its evidence has keys as examples.
        self._publish(2, 20, expected="failed")
        self._publish(3, 10, erased_value=11)
        self._stack.add_fault(FAILED_LOAD)
        self._publish(4, 10, erased_value=12)
        has_change = ERASED_PRODUCT in self._products_of_changes()
        self._expect(has_change, "before the erasure no change has the customer's product")
        for value in ERASED_VALUES:
            places = self._find(value)
            for kind in ("/data/", "/changes/", "checks_before.json", "bigquery/"):
                self._expect(any(kind in p for p in places), f"before the erasure [{value}] is not in [{kind}]")
            self.facts.append(f"[{value}] was in {len(places)} files and tables before the erasure")
        self._stack.store.put(FeedLayout(FEED).keys_to_erase(KEYS_FILE), f"{NAME_COLUMN}\n{ERASED_NAME}\n")
        approval_text = run_approved(feed=FEED, dag="erase", keys_file=KEYS_FILE, reason=REASON)
        shows_rows_only = "2 rows" in approval_text and not any(str(v) in approval_text for v in ERASED_VALUES)
        self._expect(shows_rows_only, f"the erasure showed [{approval_text}]")
        self._stack.clear_faults()
        self._publish(5, 10)
        run_id = self._client.replay(FEED, snapshot_id="1", reason="an old snapshot with the key", plan="rewrite")
        self._expect(
            self._client.wait_for_run(FEED, run_id, timeout_s=TIMEOUT_S) == "success", f"replay [{run_id}] failed"
        )
        products = {found[1] for found in self._client.rows(FEED)}
        self._expect(products == set(OTHER_PRODUCTS), f"after the erasure target has products {products}")
        has_change = ERASED_PRODUCT in self._products_of_changes()
        self._expect(not has_change, "after the erasure a change has the customer's product")

    def search(self) -> None:
        """Advance the stand-in's clock until nothing deleted can be restored, and search for the erased values."""
        clock = f"{self._stack.connection.bigquery_url}/_standin/clock"
        call("POST", clock, body={"advance_seconds": RESTORE_PERIOD.total_seconds()}, timeout_s=60)
        for value in ERASED_VALUES:
            places = self._find(value)
            self._expect(not places, f"the erased value [{value}] is in {places}")
        self.facts.append("searched: state, tables, Airflow's database, all logs, Spark's event logs")
