"""Makes tables that other software has maintained, and feed files that differ from a published table."""

from __future__ import annotations

from typing import Any

from google.cloud.bigquery import SchemaField

from dedup_clone.settings.feed import Feed
from dedup_clone.settings.table_settings import ColumnSettings
from devstack.producer.declared_snapshots import schema
from testkit.dedup_job import Row, parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row

KEYS = ("date", "product_id", "store_id", "attribute_id")
MAINTAINED = [row(8, 1, 99), row(7, 2), row(8, 4), row(7, 3, day=YESTERDAY)]


def create_table(world: FeedOnStandIn, name: str = "", *, expiration_days: int | None = 730) -> str:
    """Create a table of the feed's form. `name`: by default that of target. Returns the name."""
    table = world.feed.table
    columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
    options = f"OPTIONS (partition_expiration_days = {expiration_days})" if expiration_days else ""
    world.bigquery.query_and_wait(
        f"CREATE TABLE warehouse.{name or world.feed.target} ({columns}) PARTITION BY {table.partition_column} "
        f"CLUSTER BY {', '.join(table.cluster_by)} {options}"
    )
    return name or world.feed.target


def insert(world: FeedOnStandIn, rows: list[Row], name: str = "") -> None:
    """Insert rows into a table, by default target."""
    values = ", ".join(f"({', '.join(_literal(value) for value in row.values())})" for row in rows)
    world.bigquery.query_and_wait(
        f"INSERT INTO warehouse.{name or world.feed.target} ({', '.join(rows[0])}) VALUES {values}"
    )


def maintain(world: FeedOnStandIn, name: str = "") -> str:
    """Make a table with the rows that MERGE statements would have left: MAINTAINED, from two snapshots."""
    name = create_table(world, name)
    insert(world, MAINTAINED, name)
    return name


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"DATE '{value}'"


def with_table(feed: Feed, **changes: Any) -> Feed:
    return feed.model_copy(update={"table": feed.table.model_copy(update=changes)})


def with_columns(feed: Feed, **columns: ColumnSettings | None) -> Feed:
    """The feed with other columns in the places of those named; None drops one. Names that it lacks go to the end."""
    names = {column.name for column in feed.table.columns}
    replaced = [columns.get(column.name, column) for column in feed.table.columns]
    added = [column for name, column in columns.items() if name not in names]
    return with_table(feed, columns=tuple(column for column in (*replaced, *added) if column))


def column(name: str, kind: str, **settings: Any) -> ColumnSettings:
    return ColumnSettings(name=name, type=kind, **settings)


def as_text(feed: Feed) -> Feed:
    """The feed with another name and type of attribute values, and with a new column."""
    return with_columns(feed, attr_value=column("value", "STRING"), note=column("note", "STRING"))


def land_declared(world: FeedOnStandIn, snapshot_id: int, rows: list[Row]) -> str:
    """Land rows of today with the columns that the feed file declares. Returns the delivery's name."""
    content = parquet_bytes(rows, schema(world.feed.table.to_contract()))
    return world.land_files(snapshot_id, {f"date={TODAY}/part-0.parquet": content})


def select(world: FeedOnStandIn, columns: str, table: str = "") -> list[tuple[Any, ...]]:
    """The sorted rows of a table, by default target, with these columns. `columns`: separated by commas."""
    name = table or world.feed.target
    found = world.bigquery.query_and_wait(f"SELECT {columns} FROM warehouse.{name}")
    return sorted((tuple(r.values()) for r in found), key=repr)


def describe(world: FeedOnStandIn, name: str, path: str = "attr_value", **properties: object) -> None:
    """Set properties of a column of a table, such as `description`."""
    table = world.bigquery.get_table(f"warehouse.{name}")
    fields = [field.to_api_repr() for field in table.schema]
    next(field for field in fields if field["name"] == path).update(properties)
    table.schema = [SchemaField.from_api_repr(field) for field in fields]
    world.bigquery.update_table(table, ["schema"])
