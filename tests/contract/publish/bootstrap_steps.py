"""Makes a table that other software has maintained, and runs the steps by which a bootstrap takes it over."""

from __future__ import annotations

from typing import Any

from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.bootstrap.existing_export import drop_export, export_existing
from dedup_clone.publish.bootstrap.resolve_bootstrap import BootstrapRequest, resolve_bootstrap
from dedup_clone.publish.previews.bootstrap_preview import BootstrapPreview, preview_bootstrap
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.state.ledger import LedgerRecord
from testkit.fake_dedup_job import Row
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row

BOOTSTRAP_DAG = "feed_bootstrap"
COUNT_LIMIT = 1 << 30
SNAPSHOT_7 = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SNAPSHOT_8 = [row(8, 1, 99), row(8, 4)]
MAINTAINED = [row(8, 1, 99), row(7, 2), row(8, 4), row(7, 3, day=YESTERDAY)]
KEYS = ("date", "product_id", "store_id", "attribute_id")


def maintain(world: FeedOnStandIn) -> None:
    """Make target with the rows that MERGE statements would have left: MAINTAINED, from two snapshots."""
    create_table(world, world.feed.target)
    insert(world, world.feed.target, SNAPSHOT_7)
    merge(world, world.feed.target, SNAPSHOT_8)
    assert world.rows() == expected(*MAINTAINED)


def bootstrap_request(**changes: Any) -> BootstrapRequest:
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
    return BootstrapRequest(**values)


def preview(world: FeedOnStandIn, *, count_limit: int = COUNT_LIMIT, **changes: Any) -> BootstrapPreview:
    return preview_bootstrap(world.services, bootstrap_request(**changes), count_limit)


def begin(world: FeedOnStandIn, **changes: Any) -> PublishSpec:
    """Run the bootstrap's first task that acquires the lease, after the preview."""
    return resolve_bootstrap(world.services, bootstrap_request(**changes), preview(world, **changes).version)


def until_load(world: FeedOnStandIn, **changes: Any) -> PublishSpec:
    """Run the bootstrap up to and including the load."""
    spec = begin(world, **changes)
    export_existing(world.services, spec.attempt)
    world.deduplicate(spec)
    world.load(spec)
    return spec


def bootstrap(world: FeedOnStandIn, **changes: Any) -> LedgerRecord:
    """Run the whole bootstrap. `changes`: other values of the fields of BootstrapRequest."""
    spec = until_load(world, **changes)
    world.swap(spec, world.check(spec))
    record = world.commit(spec)
    drop_export(world.services, spec.attempt)
    return record


def create_table(world: FeedOnStandIn, name: str) -> None:
    """Create a table as the feed file declares it."""
    names = world.services.warehouse.table_names(name, name)
    world.services.warehouse.create_staging(names, world.feed.table.to_contract())


def insert(world: FeedOnStandIn, name: str, rows: list[Row]) -> None:
    world.bigquery.query_and_wait(f"INSERT INTO warehouse.{name} {_columns(rows[0])} VALUES {_values(rows)}")


def merge(world: FeedOnStandIn, name: str, rows: list[Row]) -> None:
    """Merge a snapshot's rows into the table, as the software before did: they replace the rows of their keys."""
    columns = list(rows[0])
    update = ", ".join(f"{c} = snapshot.{c}" for c in columns if c not in KEYS)
    selects = " UNION ALL ".join("SELECT " + ", ".join(f"{_literal(v)} AS {c}" for c, v in r.items()) for r in rows)
    world.bigquery.query_and_wait(
        f"MERGE warehouse.{name} AS stored USING ({selects}) AS snapshot ON "
        + " AND ".join(f"stored.{key} = snapshot.{key}" for key in KEYS)
        + f" WHEN MATCHED THEN UPDATE SET {update}"
        + f" WHEN NOT MATCHED THEN INSERT {_columns(rows[0])} VALUES ({', '.join(f'snapshot.{c}' for c in columns)})"
    )


def _columns(row: Row) -> str:
    return f"({', '.join(row)})"


def _values(rows: list[Row]) -> str:
    return ", ".join(f"({', '.join(_literal(v) for v in row.values())})" for row in rows)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"DATE '{value}'"
