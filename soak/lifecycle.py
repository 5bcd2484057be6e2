"""Backfills, retires, erases and rebuilds on the real stack. Airflow's API triggers the runs and approves them.

The worked example publishes an archive while a new delivery arrives, and is then retired. Meanwhile a key is erased in
a second feed, and a third feed's table is rebuilt with other columns. At the end the third feed is exported and
retired.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dedup_clone.state.ledger import LedgerRecord, Outcome
from devstack.demo.delivery_progress import publish_run_id
from devstack.producer.landing import Landed
from soak import erasure_run, rebuild_run
from soak.consistency import find_problems
from soak.delivery_producer import DeliveryProducer
from soak.erasure_run import ErasureRun
from soak.rebuild_run import RebuildRun
from soak.report import Section
from testkit.approvals import Approvals
from testkit.errors import HarnessError
from testkit.proxied_stack import EXAMPLE, ProxiedStack, running_stack
from testkit.stack_client import StackClient
from testkit.waiting import wait_for

ARCHIVE = "archive"  # a folder of the landing bucket
ARCHIVED_SNAPSHOTS = 3
TIMEOUT_S = 1800.0  # long, because a backfill's task land_snapshots checks only once a minute what it may land next
# The approval task of each DAG.
APPROVAL_TASKS = {
    "erase": "approve_erasure",
    "backfill": "approve_backfill",
    "rebuild": "approve_rebuild",
    "retire": "approve_retirement",
}
# The beginnings of the names of objects that every retirement leaves in the feed's folder of the state bucket.
NAMES_AFTER_RETIREMENT = ("RETIRED", "ledger/", "erasures/", "fingerprint_seed")


def run_approved(client: StackClient, feed: str, dag: str, **parameters: Any) -> str:
    """Trigger the DAG `{feed}_{dag}`, approve its run, and wait until the run has succeeded.

    Returns the text that the run showed for approval. Raises HarnessError if the run fails.
    """
    run_id = client.started_run_id(client.trigger(f"{feed}_{dag}", **parameters))
    approvals = Approvals(client, feed, dag, APPROVAL_TASKS[dag])
    approval_text = approvals.wait_for_question(run_id)
    approvals.answer(run_id, "Approve")
    if approvals.wait_for_end(run_id, "Approve", timeout_s=TIMEOUT_S) != "success":
        raise HarnessError(f"run [{run_id}] of [{feed}_{dag}] failed: {client.task_states(feed, run_id, dag=dag)}")
    return approval_text


def find_lag_s(records: Iterable[LedgerRecord], snapshot_id: int) -> float | None:
    """The lag of the first publish whose newest snapshot is this one; None without such a publish or its lag.

    Attempts that were discarded have no lag.
    """
    published = (r for r in records if r.outcome is Outcome.PUBLISHED and r.snapshot_id == snapshot_id)
    return next((record.lag_s for record in published), None)


class Lifecycle:
    """The backfill and the retirement of the worked example, and the retirement of another feed, with an export.

    `facts`, `problems`: sentences for the report.
    """

    def __init__(self, stack: ProxiedStack, client: StackClient) -> None:
        self.facts: list[str] = []
        self.problems: list[str] = []
        self._stack = stack
        self._client = client
        self._deliveries = DeliveryProducer(stack.landing)

    def _expect(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(problem)

    def _wait_for_publish(self, delivery: Landed) -> None:
        run_id = publish_run_id(delivery)
        state = self._client.wait_for_run(EXAMPLE, run_id, timeout_s=TIMEOUT_S)
        self._expect(state == "success", f"run [{run_id}] failed")

    def backfill(self) -> None:
        """Publish an archive, whose snapshots are older than all others, while the producer lands a new snapshot."""
        archived = self._deliveries.land_at_once(ARCHIVE, ARCHIVED_SNAPSHOTS)
        live = [self._deliveries.land(EXAMPLE)]
        self._wait_for_publish(live[0])
        archive = f"gs://{self._stack.connection.landing_bucket}/{ARCHIVE}"
        with ThreadPoolExecutor(1) as pool:
            form = {"archive": archive, "pause_minutes": 0, "reason": "history"}
            backfill = pool.submit(run_approved, self._client, EXAMPLE, "backfill", **form)
            wait_for(
                lambda: backfill.done() or len(self._stack.arrivals(EXAMPLE).deliveries()) > 1,
                "the first archived snapshot has landed",
                TIMEOUT_S,
            )
            live.append(self._deliveries.land(EXAMPLE))
            approval_text = backfill.result()
        self._expect(
            f"Copies [{ARCHIVED_SNAPSHOTS}] snapshots" in approval_text, f"the backfill showed [{approval_text}]"
        )
        self._wait_for_publish(live[1])
        markers = {d.snapshot_id: d.marker_generation for d in self._stack.arrivals(EXAMPLE).deliveries()}
        landed = [replace(d, marker_generation=markers[d.snapshot_id]) for d in (*archived, *live)]
        self.problems += [f"backfill: {problem}" for problem in find_problems(self._stack, EXAMPLE, landed)]
        lag_s = find_lag_s(self._stack.ledger(EXAMPLE), live[1].snapshot_id)
        self._expect(lag_s is not None, f"backfill: no publish of snapshot [{live[1].snapshot_id}] has a lag")
        lag = "none" if lag_s is None else f"{lag_s:.0f} s"
        self.facts.append(f"{len(archived)} snapshots archived; lag of one that arrived during the backfill: {lag}")

    def _retire(self, feed: str, target: str) -> list[str]:
        """Retire a feed, and check that its tables and its entry on the page are gone.

        `target`: what happens to the target table, "drop" or "export". Returns the names of the objects that are left
        in the feed's folder of the state bucket, without those that every retirement leaves.
        """
        approval_text = run_approved(self._client, feed, "retire", target=target, reason="the soak is over")
        expected_text = {"drop": "is **dropped**", "export": "is exported"}[target]
        self._expect(expected_text in approval_text, f"the retirement of [{feed}] showed [{approval_text}]")
        tables = {table.table_id for table in self._stack.bigquery.list_tables(self._stack.connection.dataset)}
        tables_of_feed = {feed, f"{feed}_staging", f"{feed}_changes", f"{feed}_incoming"} & tables
        self._expect(not tables_of_feed, f"after the retirement of [{feed}] there are tables {tables_of_feed}")
        names = [info.name.removeprefix(f"{feed}/") for info in self._stack.store.objects(f"{feed}/")]
        self._expect("RETIRED" in names, f"after its retirement [{feed}] has {names}")
        listed = self._client.ask("GET", "dedup-clone/api/feeds").json()["feeds"]
        self._expect(feed not in {shown["feed"] for shown in listed}, f"the page shows the retired feed [{feed}]")
        return [name for name in names if not name.startswith(NAMES_AFTER_RETIREMENT)]

    def retire_with_export(self, feed: str) -> None:
        """Retire a feed and export its target. The exported files must have the rows that target had."""
        found = self._client.bigquery.query_and_wait(f"SELECT * FROM {self._stack.connection.dataset}.{feed}")
        rows = sorted(repr(sorted(row.items())) for row in found)
        left = self._retire(feed, "export")
        files = [name for name in left if "-export/" in name]
        self._expect(files == left, f"after its retirement [{feed}] has {left}")
        exported = []
        for name in files:
            with self._stack.store.open(f"{feed}/{name}") as stream, pq.ParquetFile(stream) as file:
                exported += [repr(sorted(row.items())) for row in file.read().to_pylist()]
        self._expect(bool(rows) and sorted(exported) == rows, f"the export of [{feed}] has other rows than target")
        self.facts.append(f"retired with an export: {len(exported)} rows in {len(files)} files, as in target")

    def retire(self) -> None:
        """Retire the worked example and drop its tables. A later delivery must be neither registered nor published."""
        left = self._retire(EXAMPLE, "drop")
        self._expect(not left, f"after the retirement state has {left}")
        late = self._deliveries.land(EXAMPLE)
        run_id = self._client.replay(EXAMPLE, snapshot_id=str(late.snapshot_id), reason="to see that it is refused")
        self._expect(self._client.wait_for_run(EXAMPLE, run_id) == "failed", "a retired feed was published")
        log = self._client.task_log(EXAMPLE, run_id, "resolve_publish")
        self._expect("was retired" in log, "the publish of a retired feed failed without saying so")
        self._expect(not self._stack.arrivals(EXAMPLE).deliveries(), "a delivery of a retired feed was registered")
        self.facts.append("retired: tables dropped, state without the feed's data, a later delivery left alone")


def _write_feeds(dags: Path) -> None:
    erasure_run.write_feed(dags)
    rebuild_run.write_feed(dags)


def run(folder: Path) -> Section:
    """Start a stack below `folder`, and backfill, erase, rebuild and retire on it as the module's docstring says."""
    with running_stack(folder, prepare_dags=_write_feeds) as stack, ThreadPoolExecutor(1) as pool:
        client, snapshots = StackClient(stack.layout.local), folder.parent / "snapshots"
        lifecycle = Lifecycle(stack, client)
        erasure = ErasureRun(stack, client, snapshots / "erased")
        rebuild = RebuildRun(stack, client, snapshots / "rebuilt")
        running = [pool.submit(action, partial(run_approved, client)) for action in (erasure.erase, rebuild.rebuild)]
        lifecycle.backfill()
        lifecycle.retire()
        for future in running:
            future.result()
        lifecycle.retire_with_export(rebuild_run.FEED)
        erasure.search()  # last, because it moves the stand-in's clock
    parts = (lifecycle, rebuild, erasure)
    return Section(
        "Backfill, retirement, erasure and rebuild",
        tuple(fact for part in parts for fact in part.facts),
        tuple(problem for part in parts for problem in part.problems),
    )
