"""A table that somebody else maintained, and the steps by which a feed takes it over."""

from __future__ import annotations

from typing import Any

from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.bootstrap import BootstrapTrigger, resolve_bootstrap
from dedup_clone.publish.bootstrap_export import drop_export, export_existing
from dedup_clone.publish.bootstrap_preview import BootstrapPreview, preview_bootstrap
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.state.ledger import LedgerRecord
from tests.contract.publish.feed_world import FeedWorld
from tests.contract.publish.python_dedup import Row

BOOTSTRAP_DAG = "feed_bootstrap"
SCAN_LIMIT = 1 << 30
KEYS = ("date", "product_id", "store_id", "attribute_id")


def trigger(**changes: Any) -> BootstrapTrigger:
    values: dict[str, Any] = {
        "dag_id": BOOTSTRAP_DAG,
        "run_id": "bootstrap",
        "source_table": "",
        "duplicates": Duplicates.REFUSE,
        "drop_expired": False,
        "compared_dates": 3,
        "reason": "",
        **changes,
    }
    return BootstrapTrigger(**values)


def preview(world: FeedWorld, *, scan_limit: int = SCAN_LIMIT, **changes: Any) -> BootstrapPreview:
    return preview_bootstrap(world.services, trigger(**changes), scan_limit)


def begin(world: FeedWorld, **changes: Any) -> PublishOrder:
    return resolve_bootstrap(world.services, trigger(**changes), preview(world, **changes).version)


def until_load(world: FeedWorld, **changes: Any) -> PublishOrder:
    order = begin(world, **changes)
    export_existing(world.services, order.attempt)
    world.deduplicate(order)
    world.load(order)
    return order


def bootstrap(world: FeedWorld, **changes: Any) -> LedgerRecord:
    order = until_load(world, **changes)
    world.swap(order, world.check(order))
    record = world.commit(order)
    drop_export(world.services, order.attempt)
    return record


def create_table(world: FeedWorld, name: str) -> None:
    """A table with the layout that the feed declares."""
    names = world.services.warehouse.table_names(name, name)
    world.services.warehouse.create_staging(names, world.feed.table.to_contract())


def insert(world: FeedWorld, name: str, rows: list[Row]) -> None:
    world.bigquery.query_and_wait(f"INSERT INTO warehouse.{name} {_columns(rows[0])} VALUES {_values(rows)}")


def merge(world: FeedWorld, name: str, rows: list[Row]) -> None:
    """What the table was kept fresh by before: rows of a snapshot replace those of their keys."""
    columns = list(rows[0])
    update = ", ".join(
        f"{c} = brought.{c}" for c in columns if c not in ("date", "product_id", "store_id", "attribute_id")
    )
    selects = " UNION ALL ".join("SELECT " + ", ".join(f"{_literal(v)} AS {c}" for c, v in r.items()) for r in rows)
    world.bigquery.query_and_wait(
        f"MERGE warehouse.{name} AS held USING ({selects}) AS brought ON "
        + " AND ".join(f"held.{key} = brought.{key}" for key in KEYS)
        + f" WHEN MATCHED THEN UPDATE SET {update}"
        + f" WHEN NOT MATCHED THEN INSERT {_columns(rows[0])} VALUES ({', '.join(f'brought.{c}' for c in columns)})"
    )


def _columns(row: Row) -> str:
    return f"({', '.join(row)})"


def _values(rows: list[Row]) -> str:
    return ", ".join(f"({', '.join(_literal(v) for v in row.values())})" for row in rows)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"DATE '{value}'"
