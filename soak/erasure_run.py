"""Erases a key on the real stack. Afterwards it must be in nothing that the stack has written.

Before that, the key is where it can be: in data files, tables, examples of a failed check, and a replayed snapshot.
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
from soak.value_search import places_of
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import Row, StackClient, row

FEED = "erased"
PERSON = 1_234_567_890_123_456_789  # a key that no other number resembles
KEYS_FILE = "request-17.csv"
REASON = "request 17"
TIMEOUT_S = 900.0
# After that, time travel and fail-safe are over, and Cloud Storage keeps no former version of a record.
ALL_WINDOWS = timedelta(days=40)
OTHER_PRODUCTS = (1, 2, 3)


def write_feed(dags: Path) -> None:
    """Write a copy of the worked example whose check fails if most rows change."""
    write_example_feed(dags, FEED, checks={"max_changed_share": 0.5})


class ErasureRun:
    """The erasure, and the search. `facts`, `problems`: sentences for the report."""

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
        """Land a snapshot that has the key on two dates, and wait for its run."""
        rows: list[Row] = [
            row(day, product, value, snapshot_id)
            for day in (today() - timedelta(days=1), today())
            for product in (*OTHER_PRODUCTS, PERSON)
        ]
        run_id = self._client.land(FEED, snapshot_id, rows, self._folder / str(snapshot_id))
        state = self._client.wait_for_run(FEED, run_id, timeout_s=TIMEOUT_S)
        self._expect(state == expected, f"run [{run_id}] of [{FEED}] ended as [{state}], expected [{expected}]")

    def _places(self) -> list[str]:
        """Where the key is. Landing is the producer's, and the written snapshots are not the stack's."""
        layout = self._stack.layout
        return places_of(PERSON, layout, leave_out=layout.gcs_data / self._stack.connection.landing_bucket)

    def erase(self, run_approved: Callable[..., str]) -> None:
        """Publish the key, erase it, and publish and replay snapshots that have it still."""
        self._publish(1, 10)
        self._publish(2, 20, expected="failed")  # the changed share; its evidence has keys as examples
        self._publish(3, 10)
        places = self._places()
        for kind in ("/data/", "checks_before.json", "bigquery/"):
            self._expect(any(kind in place for place in places), f"before the erasure the key is not in [{kind}]")
        self._stack.store.put(FeedLayout(FEED).keys_to_erase(KEYS_FILE), f"product_id\n{PERSON}\n")
        shown = run_approved(feed=FEED, dag="erase", keys_file=KEYS_FILE, reason=REASON)
        self._expect("2 rows" in shown and str(PERSON) not in shown, f"the erasure showed [{shown}]")
        self._publish(4, 10)
        run_id = self._client.replay(FEED, snapshot_id="1", reason="an old snapshot with the key", plan="rewrite")
        self._expect(
            self._client.wait_for_run(FEED, run_id, timeout_s=TIMEOUT_S) == "success", f"replay [{run_id}] failed"
        )
        products = {found[1] for found in self._client.rows(FEED)}
        self._expect(products == set(OTHER_PRODUCTS), f"after the erasure target has products {products}")
        self.facts.append(f"the erased key was in {len(places)} files and tables before")

    def search(self) -> None:
        """Search the key when no copy of a deleted file or row can be restored any more."""
        clock = f"{self._stack.connection.bigquery_url}/_standin/clock"
        call("POST", clock, body={"advance_seconds": ALL_WINDOWS.total_seconds()}, timeout_s=60)
        places = self._places()
        self._expect(not places, f"the erased key is in {places}")
        self.facts.append("searched: state, tables, Airflow's database, all logs, Spark's event logs")
