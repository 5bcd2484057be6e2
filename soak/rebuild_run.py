"""Changes the columns and the clustering of a published table on the real stack, with the DAG FEED_rebuild.

One column is dropped, another gets a new name and type, and the table is clustered by fewer columns. After each step
target and the feed's table of changes must have the rows that the oracle computes from the ledger and the landed
snapshots.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import yaml

from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.state.ledger import Outcome
from devstack.producer.declared_snapshots import schema
from soak.example_feeds import write_example_feed
from soak.small_snapshots import today
from testkit.oracle import OracleDelivery, OracleState, OracleTable, comparable
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import Row, StackClient, row
from testkit.stored_changes import Change, expected_changes, stored_changes
from testkit.table_contracts import oracle_table

FEED = "rebuilt"
KEYS = ["date", "product_id", "attribute_id"]
OLD_NAME, NEW_NAME = "attr_value", "value"
REASON = "stores have a table of their own"
PRODUCTS = 6
TIMEOUT_S = 900.0


def write_feed(dags: Path) -> None:
    """Write the feed file. Its column `store_id` is no key, so that it can be dropped later."""
    table = {"keys": KEYS, "cluster_by": ["product_id", "attribute_id"]}
    write_example_feed(dags, FEED, table=table, changes=True)


def change_feed(dags: Path) -> None:
    """Change columns and clustering in the feed file. Until the table is rebuilt, publishes are then refused."""
    path = dags / "feeds" / f"{FEED}.yaml"
    settings = yaml.safe_load(path.read_text())
    columns = [column for column in settings["table"]["columns"] if column["name"] != "store_id"]
    changed = {"name": NEW_NAME, "type": "STRING"}
    settings["table"]["columns"] = [changed if c["name"] == OLD_NAME else c for c in columns]
    settings["table"]["cluster_by"] = ["product_id"]
    path.write_text(yaml.safe_dump(settings, sort_keys=False))


def to_new_form(former: Row) -> Row:
    """The row that the rebuild must make of a row of the published table."""
    copied = {name: value for name, value in former.items() if name not in ("store_id", OLD_NAME)}
    return {**copied, NEW_NAME: str(former[OLD_NAME])}


class RebuildRun:
    """The publishes and the rebuild. `facts`, `problems`: sentences for the report.

    `folder`: where the landed snapshots are written; its content is deleted.
    """

    def __init__(self, stack: ProxiedStack, client: StackClient, folder: Path) -> None:
        self.facts: list[str] = []
        self.problems: list[str] = []
        self._stack = stack
        self._client = client
        self._folder = folder
        self._landed: dict[int, list[Row]] = {}
        shutil.rmtree(folder, ignore_errors=True)

    def rebuild(self, run_approved: Callable[..., str]) -> None:
        """Publish two snapshots, rebuild the table, and publish a snapshot in the new form.

        `run_approved`: triggers a DAG and approves its run; it is soak.lifecycle.run_approved with its client bound.
        """
        for snapshot_id in (1, 2):
            self._publish(snapshot_id, self._rows(snapshot_id))
        self._compare("before the rebuild")
        change_feed(self._stack.layout.dags_folder)
        self._land_refused(3)
        approval_text = run_approved(feed=FEED, dag="rebuild", renamed={OLD_NAME: NEW_NAME}, reason=REASON)
        self._expect(f"[{OLD_NAME}] becomes [{NEW_NAME}]" in approval_text, f"the rebuild showed [{approval_text}]")
        self._compare("after the rebuild", has_changes=False)
        self._publish(4, [to_new_form(old) for old in self._rows(4)])
        self._compare("after a publish in the new form")
        self.facts.append(f"rebuilt: {', '.join(c.name for c in self._feed.table.columns)}, the next snapshot on top")

    @property
    def _feed(self) -> Feed:
        return read_feed(self._stack.layout.dags_folder / "feeds" / f"{FEED}.yaml")

    def _expect(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(problem)

    def _rows(self, snapshot_id: int) -> list[Row]:
        """The rows of a snapshot. Consecutive snapshots lack different products and differ in product 1's value."""
        return [
            row(day, product, snapshot_id if product == 1 else product, snapshot_id)
            for day in (today() - timedelta(days=1), today())
            for product in range(PRODUCTS)
            if product != 2 + snapshot_id % (PRODUCTS - 2)
        ]

    def _land(self, snapshot_id: int, rows: list[Row]) -> str:
        """Land a snapshot with the columns of the feed file. Returns the id of its publish run."""
        self._landed[snapshot_id] = rows
        columns, folder = schema(self._feed.table.to_contract()), self._folder / str(snapshot_id)
        return self._client.land(FEED, snapshot_id, rows, folder, schema=columns)

    def _publish(self, snapshot_id: int, rows: list[Row]) -> None:
        run_id = self._land(snapshot_id, rows)
        state = self._client.wait_for_run(FEED, run_id, timeout_s=TIMEOUT_S)
        self._expect(state == "success", f"run [{run_id}] failed: {self._client.task_states(FEED, run_id)}")

    def _land_refused(self, snapshot_id: int) -> None:
        """Land a snapshot in the new form. Its publish must fail in task resolve_publish, and log what to do."""
        run_id = self._land(snapshot_id, [to_new_form(old) for old in self._rows(snapshot_id)])
        self._expect(
            self._client.wait_for_run(FEED, run_id, timeout_s=TIMEOUT_S) == "failed", f"run [{run_id}] did not fail"
        )
        states = self._client.task_states(FEED, run_id)
        self._expect(states["dedup_snapshot"] == "upstream_failed", f"run [{run_id}] went on: {states}")
        log = self._client.task_log(FEED, run_id, "resolve_publish")
        for expected_text in (f"column [{OLD_NAME}] is no longer declared", f"{FEED}_rebuild"):
            self._expect(expected_text in log, f"the log of run [{run_id}] does not say [{expected_text}]")

    def _compare(self, when: str, *, has_changes: bool = True) -> None:
        """Compare target with the oracle's table, and the table of changes with its changes.

        `has_changes`: False after a rebuild, which empties the table of changes; it is not compared then.
        """
        feed = self._feed
        state, changes = self._expected()
        target = self._client.bigquery.get_table(f"warehouse.{FEED}")
        found = {"columns": [f.name for f in target.schema], "clustering": target.clustering_fields}
        declared = {"columns": [c.name for c in feed.table.columns], "clustering": list(feed.table.cluster_by)}
        self._expect(found == declared, f"{when}: target has {found}, expected {declared}")
        rows = [dict(r.items()) for r in self._client.bigquery.query_and_wait(f"SELECT * FROM warehouse.{FEED}")]
        self._expect(comparable(state.table, rows) == state.table_rows(), f"{when}: target has [{rows}]")
        if has_changes:
            stored = stored_changes(self._client.bigquery, f"warehouse.{FEED}_changes", state.table)
            self._expect(bool(changes) and stored == changes, f"{when}: {FEED}_changes has {stored}, not {changes}")
            self.facts.append(f"{when}: {len(rows)} rows, {len(stored)} changes")

    def _expected(self) -> tuple[OracleState, list[Change]]:
        """The oracle's table, and its changes since the rebuild; before the rebuild, since the first generation."""
        retention_day = today() - timedelta(days=700)
        state, changes = OracleState(self._oracle_table(1)), list[Change]()
        for record in self._stack.ledger(FEED):
            if record.outcome is not Outcome.PUBLISHED or record.generation is None:
                continue
            if record.rebuilt:
                rows = {key: to_new_form(old) for key, old in state.rows.items()}
                state, changes = replace(state, table=self._oracle_table(record.generation), rows=rows), []
                continue
            before, ids = state, [delivery.snapshot_id for delivery in record.deliveries]
            state = state.apply([OracleDelivery(number, self._landed[number]) for number in ids], retention_day)
            if record.parent is not None:  # the first generation adds no rows to the table of changes
                changes += expected_changes(
                    before, state, generation=record.generation, snapshot_id=ids[-1], retention_day=retention_day
                )
        return state, changes

    def _oracle_table(self, generation: int) -> OracleTable:
        return oracle_table(self._stack.manifests(FEED).read(generation).table)
