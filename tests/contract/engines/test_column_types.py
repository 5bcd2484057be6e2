"""Column types that need care: Parquet types that BigQuery reads as others, and values that SQL orders as text."""

from __future__ import annotations

import dataclasses
from datetime import datetime

import pyarrow as pa
import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.column_types import arrow_schema
from testkit.enum_files import enum_file
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table, parquet
from testkit.feed_on_stand_in import row
from testkit.table_contracts import PRODUCTS

MOMENT = datetime(2026, 1, 31, 1, 2, 3)  # noqa: DTZ001  (a DATETIME has no zone)
TABLE = dataclasses.replace(PRODUCTS, columns=(*PRODUCTS.columns, Column("seen_at", "DATETIME")))

one_engine = pytest.mark.parametrize(
    "engine", [Engine.BIGQUERY, pytest.param(Engine.MERGE, marks=pytest.mark.exhaustive)]
)


@one_engine
def test_a_datetime_and_an_enum_are_published(clients: tuple[Storage, BigQuery], engine: Engine) -> None:
    """Sources: loading-data-cloud-storage-parquet, type conversions (INT64 TIMESTAMP is a TIMESTAMP); rest/v2/tables,
    ParquetOptions.enumAsString (without it an ENUM is BYTES).
    """
    table = dataclasses.replace(TABLE, columns=(*TABLE.columns, Column("kind", "STRING")))
    world = FeedAgainstOracle(clients, feed_with_table(table, engine))
    landed = [{**row(1, 1), "seen_at": MOMENT, "kind": "red"}]
    (name,) = world.files_of(landed)
    file = enum_file(pa.Table.from_pylist(landed, schema=arrow_schema(table.columns)), "kind")
    world.publish(world.land_files(1, {name: file}))
    (found,) = world.bigquery.query_and_wait(f"SELECT seen_at, kind FROM warehouse.{world.feed.target}")
    assert tuple(found) == (MOMENT, "red")


@one_engine
def test_negative_numbers_inside_arrays(clients: tuple[Storage, BigQuery], engine: Engine) -> None:
    table = dataclasses.replace(PRODUCTS, columns=(*PRODUCTS.columns, Column("n", "INT64", ColumnMode.REPEATED)))
    world = FeedAgainstOracle(clients, feed_with_table(table, engine))
    world.publish(world.land(1, [{**row(1, 1), "n": [number]} for number in (-(2**63), -2, -1)]))
    (found,) = world.bigquery.query_and_wait(f"SELECT n FROM warehouse.{world.feed.target}")
    assert found["n"] == [-1]


@one_engine
def test_a_time_of_the_other_kind_is_refused(clients: tuple[Storage, BigQuery], engine: Engine) -> None:
    world = FeedAgainstOracle(clients, feed_with_table(TABLE, engine))
    (name, _), *_ = world.files_of([{**row(1, 1), "seen_at": MOMENT}]).items()
    rows = pa.table(
        {**{k: [v] for k, v in row(1, 1).items()}, "seen_at": pa.array([MOMENT], pa.timestamp("us", "UTC"))}
    )
    delivery = world.land_files(1, {name: parquet(rows)})
    with pytest.raises(DeliveryRefused, match=r"column \[seen_at\] is \[TIMESTAMP\], expected \[DATETIME\]"):
        world.publish(delivery)
