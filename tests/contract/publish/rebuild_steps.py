"""Makes changed feed files, and runs the steps of the rebuild that they need."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from dedup_clone.orchestration.rebuild import rebuild_tasks
from dedup_clone.orchestration.shared.task_runtime import RESOLVE_REBUILD, pull_spec
from dedup_clone.publish.rebuild.rebuild_plan import RebuildRequest
from dedup_clone.publish.rebuild.resolve_rebuild import (
    delete_copies,
    prepare_swap,
)
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.settings.feed import Feed
from dedup_clone.settings.table_settings import ColumnSettings
from dedup_clone.state.ledger import LedgerRecord
from devstack.producer.declared_snapshots import schema
from testkit.fake_dedup_job import Row, parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row
from tests.shared.task_api import dag_run

FIRST = [row(7, 1), row(7, 2, 30), row(7, 3, day=YESTERDAY)]


def request(**changes: Any) -> RebuildRequest:
    return RebuildRequest(**{"dag_id": "feed_rebuild", "run_id": "rebuild", "reason": "another form", **changes})


def with_table(feed: Feed, **changes: Any) -> Feed:
    return feed.model_copy(update={"table": feed.table.model_copy(update=changes)})


def with_columns(feed: Feed, **columns: ColumnSettings | None) -> Feed:
    """The feed with other columns in the places of those named; None drops one. Names that it lacks go to the end."""
    names = {column.name for column in feed.table.columns}
    replaced = [columns.get(column.name, column) for column in feed.table.columns]
    added = [column for name, column in columns.items() if name not in names]
    return with_table(feed, columns=tuple(column for column in (*replaced, *added) if column))


def as_text(feed: Feed) -> Feed:
    """The feed with another name and type of attribute values, and with a new column."""
    note = ColumnSettings(name="note", type="STRING")
    return with_columns(feed, attr_value=ColumnSettings(name="value", type="STRING"), note=note)


def without_attribute(feed: Feed) -> Feed:
    """The feed without the column `attribute_id`, which is a key and clusters the table."""
    keys = tuple(key for key in feed.table.keys if key != "attribute_id")
    return with_table(with_columns(feed, attribute_id=None), keys=keys, cluster_by=("product_id",))


def by_sale(feed: Feed) -> Feed:
    """The feed with a table that is partitioned by a new column."""
    sold_on = ColumnSettings(name="sold_on", type="DATE")
    return with_table(with_columns(feed, sold_on=sold_on), partition_column="sold_on", keys=("sold_on", "product_id"))


def until(world: FeedOnStandIn, step: str, **params: Any) -> PublishSpec:
    """Run the rebuild up to and including this step. The DAG's own tasks are called as the task runner calls them."""
    results: dict[str, Any] = {}
    setup: Any = None  # the tasks use it only to open services, which are replaced below
    form = {name: param.value for name, param in rebuild_tasks.rebuild_params().items()}
    context: Any = {
        "ti": SimpleNamespace(xcom_pull=lambda task_ids: results.get(task_ids)),
        "dag": SimpleNamespace(has_task=lambda task_id: task_id == RESOLVE_REBUILD),
        "params": {**form, "reason": "another form", **params},
        "dag_run": dag_run("feed_rebuild", "rebuild"),
    }
    with patch.object(rebuild_tasks, "open_feed_services", lambda _: world.services):
        results[rebuild_tasks.SHOW_TASK] = rebuild_tasks.show_rebuild(setup, context)
        results[RESOLVE_REBUILD] = rebuild_tasks.resolve(setup, context)
        spec = pull_spec(context)
        steps: dict[str, Callable[[], Any]] = {
            "resolve": lambda: None,
            "export": lambda: rebuild_tasks.export(setup, context),
            "dedup": lambda: world.deduplicate(spec),
            "prepare": lambda: rebuild_tasks.prepare(setup, context),
            "load": lambda: world.load(spec),
            "check": lambda: world.check(spec),
            "swap": lambda: swap(world, spec),
        }
        for name, run in steps.items():
            if (name, step) != ("check", "swap"):
                run()
            if name == step:
                break
    return spec


def swap(world: FeedOnStandIn, spec: PublishSpec) -> None:
    checked = world.check(spec)
    prepare_swap(world.services, spec)
    world.swap(spec, checked)


def rebuild(world: FeedOnStandIn, **params: Any) -> LedgerRecord:
    """Run the whole rebuild. `params`: fields of the form that differ from their defaults."""
    spec = until(world, "swap", **params)
    record = world.commit(spec)
    delete_copies(world.services, spec)
    return record


def select(world: FeedOnStandIn, columns: str) -> list[tuple[Any, ...]]:
    """The sorted rows of target with these columns. `columns`: separated by commas."""
    found = world.bigquery.query_and_wait(f"SELECT {columns} FROM warehouse.{world.feed.target} ORDER BY {columns}")
    return [tuple(r.values()) for r in found]


def land(world: FeedOnStandIn, snapshot_id: int, rows: list[Row]) -> str:
    """Land rows of today with the columns that the feed file declares. Returns the delivery's name."""
    content = parquet_bytes(rows, schema(world.feed.table.to_contract()))
    return world.land_files(snapshot_id, {f"date={TODAY}/part-0.parquet": content})
