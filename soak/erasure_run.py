"""Erases a key on the real stack. Afterwards nothing that the stack has written may contain the key.

Before the erasure, data files, tables and the examples of a failed check contain the key. After the erasure, snapshots
with the key are published and replayed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from dedup_clone.state.layout import FeedLayout
from devstack.http_calls import call
from soak.example_feeds import write_example_feed
from soak.small_snapshots import today
from soak.value_search import find_places
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import Row, StackClient, row

FEED = "erased"
ERASED_PRODUCT = 1_234_567_890_123_456_789  # whose digits no other number has
KEYS_FILE = "request-17.csv"
REASON = "request 17"
TIMEOUT_S = 900.0
# After this time nothing deleted can be restored: time travel and fail-safe of BigQuery are over, and Cloud Storage
# keeps no noncurrent version of a record.
RESTORE_PERIOD = timedelta(days=40)
OTHER_PRODUCTS = (1, 2, 3)


def write_feed(dags: Path) -> None:
    """Write a copy of the worked example whose check fails if most rows change."""
    write_example_feed(dags, FEED, checks={"max_changed_share": 0.5})


class ErasureRun:
    """Erases a key, and then searches for it. `facts`, `problems`: sentences for the report.

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

    def _publish(self, snapshot_id: int, value: int, expected: str = "success") -> None:
        """Land a snapshot that has the key on two dates, and wait until its run has ended as `expected`."""
        rows: list[Row] = [
            row(day, product, value, snapshot_id)
            for day in (today() - timedelta(days=1), today())
            for product in (*OTHER_PRODUCTS, ERASED_PRODUCT)
        ]
        run_id = self._client.land(FEED, snapshot_id, rows, self._folder / str(snapshot_id))
        state = self._client.wait_for_run(FEED, run_id, timeout_s=TIMEOUT_S)
        self._expect(state == expected, f"run [{run_id}] of [{FEED}] ended as [{state}], expected [{expected}]")

    def _find_key(self) -> list[str]:
        """Where the stack has written the key. Landing is left out, because the producer writes it."""
        layout = self._stack.layout
        landing = layout.gcs_data / self._stack.connection.landing_bucket
        return find_places(ERASED_PRODUCT, layout, excluded_folder=landing)

    def erase(self, run_approved: Callable[..., str]) -> None:
        """Publish the key, erase it, and publish and replay snapshots that contain it.

        `run_approved`: soak.lifecycle.run_approved without its first argument.
        """
        self._publish(1, 10)
        # The check of the changed share fails, and its evidence has keys as examples.
        self._publish(2, 20, expected="failed")
        self._publish(3, 10)
        places = self._find_key()
        for kind in ("/data/", "checks_before.json", "bigquery/"):
            self._expect(any(kind in place for place in places), f"before the erasure the key is not in [{kind}]")
        self._stack.store.put(FeedLayout(FEED).keys_to_erase(KEYS_FILE), f"product_id\n{ERASED_PRODUCT}\n")
        approval_text = run_approved(feed=FEED, dag="erase", keys_file=KEYS_FILE, reason=REASON)
        shows_rows_only = "2 rows" in approval_text and str(ERASED_PRODUCT) not in approval_text
        self._expect(shows_rows_only, f"the erasure showed [{approval_text}]")
        self._publish(4, 10)
        run_id = self._client.replay(FEED, snapshot_id="1", reason="an old snapshot with the key", plan="rewrite")
        self._expect(
            self._client.wait_for_run(FEED, run_id, timeout_s=TIMEOUT_S) == "success", f"replay [{run_id}] failed"
        )
        products = {found[1] for found in self._client.rows(FEED)}
        self._expect(products == set(OTHER_PRODUCTS), f"after the erasure target has products {products}")
        self.facts.append(f"the erased key was in {len(places)} files and tables before")

    def search(self) -> None:
        """Advance the stand-in's clock until nothing deleted can be restored, and search for the key."""
        clock = f"{self._stack.connection.bigquery_url}/_standin/clock"
        call("POST", clock, body={"advance_seconds": RESTORE_PERIOD.total_seconds()}, timeout_s=60)
        places = self._find_key()
        self._expect(not places, f"the erased key is in {places}")
        self.facts.append("searched: state, tables, Airflow's database, all logs, Spark's event logs")
