"""A feed whose columns get a wider type or may be NULL: real publishes by the real Spark job, against the oracle.

What BigQuery widens says its page "Modifying table schemas": also fields of a STRUCT, none in an ARRAY. Fields of both
may become NULLABLE ("Specify nested and repeated columns").
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from testkit.fake_dedup_job import Row
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.oracle import OracleDelivery, OracleState
from testkit.spark_dedup_process import SparkDedupProcess
from testkit.table_contracts import NESTED, oracle_table
from tests.contract.engines.nested_snapshots import OLDEST, snapshot

pytestmark = pytest.mark.spark


def with_sizes(kind: str, mode: ColumnMode) -> TableContract:
    """The nested table with a column `size`, also as a field of its STRUCT, and a text in its ARRAY of STRUCTs."""
    size = Column("size", kind, mode)
    new_field = {"info": size, "parts": Column("unit", "STRING", mode)}
    columns = [replace(c, fields=(*c.fields, new_field[c.name])) if c.fields else c for c in NESTED.columns]
    return replace(NESTED, columns=(*columns, size))


NARROW = with_sizes("INT64", ColumnMode.REQUIRED)
WIDE = with_sizes("NUMERIC", ColumnMode.NULLABLE)
PARTS = next(column for column in WIDE.columns if column.name == "parts")
WIDE_PARTS = replace(PARTS, fields=tuple(replace(f, type="NUMERIC") if f.type == "INT64" else f for f in PARTS.fields))
WIDE_ARRAY = replace(WIDE, columns=tuple(WIDE_PARTS if c.name == "parts" else c for c in WIDE.columns))
WIDE_KEY = replace(WIDE, columns=tuple(replace(c, type="NUMERIC") if c.name == "code" else c for c in WIDE.columns))
Clients = tuple[Storage, BigQuery]


def sized(rows: list[Row], size: int | Decimal | None, unit: str | None = "kg") -> list[Row]:
    return [
        {
            **row,
            "size": size,
            "info": row["info"] and {**row["info"], "size": size},
            "parts": [{**part, "unit": unit} for part in row["parts"]],
        }
        for row in rows
    ]


@pytest.mark.parametrize("plan", ["auto", pytest.param("antijoin", marks=pytest.mark.exhaustive)])
def test_files_of_before_and_after_a_widening_live_together(
    clients: Clients, real_dedup: SparkDedupProcess, plan: str
) -> None:
    world, random = FeedAgainstOracle(clients, feed_with_table(NARROW)), Random(5)
    world.dedup = real_dedup
    state = OracleState(oracle_table(WIDE))

    def publish(number: int, rows: list[Row], files: dict[str, bytes]) -> None:
        nonlocal state
        world.publish(world.land_files(number, files), replay=True, plan=plan, reason="a plan", run_id=f"run-{number}")
        state = state.apply([OracleDelivery(number, rows)], OLDEST)
        world.assert_equal(state)

    first, second = sized(snapshot(random, 1), 2**62), sized(snapshot(random, 2), 7)
    publish(1, first, world.files_of(first))
    files = world.files_of(second)  # of the former type
    world.declare(WIDE)
    publish(2, second, files)
    rows = snapshot(random, 3)
    third = [*sized(rows[:2], None, None), *sized(rows[2:], Decimal("0.5"))]
    publish(3, third, world.files_of(third))

    for table in (world.feed.staging, world.feed.target):
        found = world.services.warehouse.table(table)
        assert found
        assert found.columns == WIDE.columns
    with pytest.raises(ConfigurationError, match="the type of a column"):
        world.roll_back(1)
    assert world.roll_back(2).restores == 2


def test_a_widening_that_an_engine_or_a_role_forbids_is_refused_before_the_dedup(
    clients: Clients, real_dedup: SparkDedupProcess
) -> None:
    world, random = FeedAgainstOracle(clients, feed_with_table(NARROW)), Random(5)
    world.dedup = real_dedup
    world.publish(world.land(1, sized(snapshot(random, 1), 1)))
    world.declare(WIDE)
    name = world.land(2, sized(snapshot(random, 2), Decimal(2)))
    with pytest.raises(ConfigurationError, match=r"\[merge\] cannot widen columns .* \['info.size', 'size'\]"):
        world.resolve(name, replay=True, engine=Engine.MERGE, reason="without Spark")
    spec = world.resolve(name)  # it changes staging
    world.services.current.release(spec.attempt)
    world.declare(NARROW)
    differs = r"present file differs \(column \[info.size\] is \[INT64\], it was \[NUMERIC\].*as staging has it"
    with pytest.raises(ConfigurationError, match=differs):
        world.resolve(name)
    world.declare(WIDE_ARRAY)
    with pytest.raises(ConfigurationError, match=r"column \[parts.number\] is \[NUMERIC\], it was \[INT64\]"):
        world.resolve(name)
    world.declare(WIDE_KEY)
    with pytest.raises(ConfigurationError, match=r"column \[code\] has another type, and columns of keys"):
        world.resolve(name)
