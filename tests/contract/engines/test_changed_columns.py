"""New and wider columns, tables that one engine made and another reads, and columns that only folders' names have.

Real publishes against the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError, DeliveryRefused
from dedup_clone.contract.table import Column, ColumnMode, TableContract, UpdateIdMode
from dedup_clone.settings.table_settings import ColumnSettings
from testkit import runs
from testkit.dedup_job import SCHEMA, Row, parquet_bytes
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row, today
from testkit.generated_tables import GeneratedHistory
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import NESTED, PRODUCTS, oracle_table

SIZE = Column("size", "INT64")
Clients = tuple[Storage, BigQuery]


def oldest() -> date:
    """The oldest date that has not expired today."""
    return today() - timedelta(days=NESTED.retention_days - 1)


def nested_snapshots() -> GeneratedHistory:
    return GeneratedHistory(NESTED, Random(5), oldest(), repeat=0.3, sizes=(1, 40))


def with_sizes(kind: str, mode: ColumnMode) -> TableContract:
    """The nested table with a column `size`, also as a field of its STRUCT, and a text in its ARRAY of STRUCTs."""
    size = Column("size", kind, mode)
    new_field = {"info": size, "parts": Column("unit", "STRING", mode)}
    columns = [replace(c, fields=(*c.fields, new_field[c.name])) if c.fields else c for c in NESTED.columns]
    return replace(NESTED, columns=(*columns, size))


NARROW, WIDE = with_sizes("INT64", ColumnMode.REQUIRED), with_sizes("NUMERIC", ColumnMode.NULLABLE)
PARTS = next(column for column in WIDE.columns if column.name == "parts")
WIDE_PARTS = replace(PARTS, fields=tuple(replace(f, type="NUMERIC") if f.type == "INT64" else f for f in PARTS.fields))
WIDE_ARRAY = replace(WIDE, columns=tuple(WIDE_PARTS if c.name == "parts" else c for c in WIDE.columns))
WIDE_KEY = replace(WIDE, columns=tuple(replace(c, type="NUMERIC") if c.name == "code" else c for c in WIDE.columns))


def sized(rows: list[Row], size: int | Decimal | None, unit: str | None = "kg") -> list[Row]:
    return [
        {
            **row,
            "size": size,
            "info": row["info"] and {**row["info"], "size": size},
            "parts": [{**part, "unit": unit} for part in row["parts"] or []],
        }
        for row in rows
    ]


def declare(world: FeedAgainstOracle, table: TableContract, before: TableContract, *, since: int | None) -> None:
    """Change the columns of the feed file. `since`: of those that `before` lacks, also of nested ones."""

    def settings(column: Column, known: dict[str, Column]) -> ColumnSettings:
        inner = {field.name: field for field in known[column.name].fields} if column.name in known else {}
        is_new = column.name not in known
        fields = tuple(settings(f, {f.name: f} if is_new else inner) for f in column.fields)
        values = {"name": column.name, "type": column.type, "mode": column.mode, "fields": fields}
        return ColumnSettings.model_validate(values | ({"since": since} if is_new and since else {}))

    columns = {column.name: column for column in before.columns}
    world.declare_columns([settings(column, columns) for column in table.columns])


@pytest.mark.parametrize("mode", [UpdateIdMode.LAST_SEEN, UpdateIdMode.LAST_CHANGED])
def test_columns_are_added_and_then_widened_by_the_next_publish(clients: Clients, mode: UpdateIdMode) -> None:
    """Files of the former form are read with those of the new one."""
    world = FeedAgainstOracle(clients, feed_with_table(NESTED).model_copy(update={"update_id_mode": mode}))
    state = OracleState(oracle_table(WIDE), last_changed=mode is UpdateIdMode.LAST_CHANGED)
    snapshots, narrow = nested_snapshots(), with_sizes("INT64", ColumnMode.NULLABLE)
    for number in range(1, 5):
        plain = snapshots.snapshot(number)
        rows = sized(plain, None, None) if number < 3 else sized(plain, Decimal(number) if number == 4 else number)
        files = world.files_of(plain if number < 3 else rows)  # those of snapshot 2 lack the new columns
        if number == 2:
            declare(world, narrow, NESTED, since=3)
        if number == 4:
            declare(world, WIDE, NESTED, since=3)
            files = world.files_of(rows)
        world.publish(world.land_files(number, files))
        state = state.apply([OracleDelivery(number, rows)], oldest())
        if number > 1:
            world.assert_equal(state)
    with pytest.raises(ConfigurationError, match=r"Choose one of: 4 "):
        world.roll_back(1)


def test_new_columns_outlive_a_rollback_to_a_generation_without_them(clients: Clients) -> None:
    flat = replace(PRODUCTS, columns=(*PRODUCTS.columns, SIZE))
    world, before = FeedAgainstOracle(clients, feed_with_table(PRODUCTS)), OracleState(oracle_table(flat))
    for number in (1, 2, 3):
        rows = [{**row(number, 1, number), "size": number}, {**row(number, 10 + number), "size": number}]
        if number == 1:
            seen = [{**r, "size": None} for r in rows]
            world.publish(world.land(1, [row(1, 1, 1), row(1, 11)]))
            declare(world, flat, PRODUCTS, since=2)
            before = before.apply([OracleDelivery(1, seen)], oldest())
            continue
        world.publish(world.land(number, rows))
        world.assert_equal(before.apply([OracleDelivery(number, rows)], oldest()))
        if number == 2:
            world.roll_back(1)
            assert world.table_rows() == before.table_rows()


@pytest.mark.parametrize("engine", [Engine.BIGQUERY, Engine.MERGE])
def test_engines_in_sql_add_columns_that_all_files_have(clients: Clients, engine: Engine) -> None:
    flat = replace(NESTED, columns=(*NESTED.columns, SIZE))
    world, snapshots = FeedAgainstOracle(clients, feed_with_table(NESTED, engine)), nested_snapshots()
    state = OracleState(oracle_table(flat))
    for number in (1, 2):
        plain = snapshots.snapshot(number)
        rows = [{**row, "size": None if number == 1 else number} for row in plain]
        world.publish(world.land(number, plain if number == 1 else rows))
        state = state.apply([OracleDelivery(number, rows)], oldest())
        declare(world, flat, NESTED, since=None)
    world.assert_equal(state)


REFUSED: list[tuple[TableContract, dict[str, Any], str]] = [
    (replace(WIDE, columns=tuple(c for c in WIDE.columns if c.name != "note")), {}, r"\[note\] is no longer declared"),
    (WIDE, {"engine": Engine.MERGE}, r"cannot widen columns .* \['info.size', 'size'\]"),
    (WIDE_ARRAY, {}, r"\[parts.number\] is \[NUMERIC\], it was \[INT64\]"),
    (WIDE_KEY, {}, r"\[code\] has another type"),
]


def test_a_change_that_an_engine_or_a_role_forbids_is_refused_before_the_dedup(clients: Clients) -> None:
    world, snapshots = FeedAgainstOracle(clients, feed_with_table(NARROW)), nested_snapshots()
    world.publish(world.land(1, sized(snapshots.snapshot(1), 1)))
    world.declare(WIDE)
    name = world.land(2, sized(snapshots.snapshot(2), Decimal(2)))
    for table, form, words in REFUSED:
        world.declare(table)
        with pytest.raises(ConfigurationError, match=words):
            world.resolve(name, replay=True, reason="test", **form)
        assert world.state.lease is None
    world.declare(WIDE)
    runs.publish(world, name).until("resolve").end()  # it has changed staging
    world.declare(NARROW)
    with pytest.raises(ConfigurationError, match="as staging has it"):
        world.resolve(name)
    world = FeedAgainstOracle(clients, feed_with_table(NESTED, Engine.BIGQUERY))
    world.publish(world.land(1, snapshots.snapshot(1)))
    declare(world, with_sizes("INT64", ColumnMode.NULLABLE), NESTED, since=3)
    with pytest.raises(ConfigurationError, match=r"\['info.size', 'parts.unit'\]"):
        world.resolve(world.land(2, sized(snapshots.snapshot(2), 1)))


# Without FLOAT64, which BigQuery exports as FLOAT, and with TIMESTAMPs, which it exports as not adjusted to UTC.
EXPORTABLE = replace(
    NESTED,
    columns=(
        *(
            replace(column, fields=tuple(field for field in column.fields if field.type != "FLOAT64"))
            for column in NESTED.columns
            if column.type != "FLOAT64"
        ),
        Column("at", "TIMESTAMP"),
        Column("local", "DATETIME"),
        Column("moments", "TIMESTAMP", ColumnMode.REPEATED),
    ),
)
MOMENT = datetime(2026, 3, 29, 0, 59, 59, 123456, tzinfo=UTC)


def exportable(random: Random, rows: list[Row]) -> list[Row]:
    """The rows with the columns of EXPORTABLE."""
    return [
        {
            **{name: value for name, value in row.items() if name != "amount"},
            "info": row["info"] and {"label": row["info"]["label"]},
            "at": random.choice([None, MOMENT, MOMENT + timedelta(hours=1)]),
            "local": random.choice([None, MOMENT.replace(tzinfo=None)]),
            "moments": random.choice([[], [MOMENT], [MOMENT, MOMENT - timedelta(days=1)]]),
        }
        for row in rows
    ]


def test_spark_goes_on_from_a_table_that_sql_made_and_sql_from_what_spark_wrote(clients: Clients) -> None:
    """Another feed takes over a copy of the last table, and goes on with the Spark job."""
    world, taker = (FeedAgainstOracle(clients, feed_with_table(EXPORTABLE)) for _ in range(2))
    expected, random, snapshots = OracleState(world.oracle_table), Random(20261121), nested_snapshots()
    for number, engine in enumerate([Engine.BIGQUERY, Engine.SPARK, Engine.MERGE], start=1):
        rows = exportable(random, snapshots.snapshot(number))
        world.publish(world.land(number, rows), engine=engine)
        expected = expected.apply([OracleDelivery(number, rows)], oldest())
        world.assert_equal(expected)
    world.bigquery.query_and_wait(f"CREATE TABLE warehouse.{taker.feed.target} CLONE warehouse.{world.feed.target}")
    record = runs.bootstrap(taker).finish()
    assert taker.table_rows() == expected.table_rows()
    assert (record.rows, record.ties, record.snapshot_id) == (len(expected.rows), 0, 3)
    rows = exportable(random, snapshots.snapshot(4))
    taker.publish(taker.land(4, rows))
    assert taker.table_rows() == expected.apply([OracleDelivery(4, rows)], oldest()).table_rows()


HIVE = SCHEMA.remove(SCHEMA.get_field_index("date"))
BARE = HIVE.remove(HIVE.get_field_index("update_id"))
FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SECOND = [row(8, 1, 21), row(8, 4)]


def land(world: FeedOnStandIn, snapshot_id: int, rows: Sequence[Row]) -> str:
    """Land the rows in Hive's layout; today's files lack the snapshot id, too."""
    files = {}
    for day, schema in ((TODAY, BARE), (YESTERDAY, HIVE)):
        found = [{name: one[name] for name in schema.names} for one in rows if one["date"] == day]
        if found:
            files[f"date={day}/part-0.parquet"] = parquet_bytes(found, schema)
    return world.land_files(snapshot_id, files)


def test_folders_give_the_columns_that_files_lack(world: FeedOnStandIn) -> None:
    world.configure(publish={"swap": "copy"})
    world.publish(land(world, 7, FIRST))
    assert world.rows() == expected(*FIRST)
    world.publish(land(world, 8, SECOND))
    assert world.rows() == expected(*SECOND, *FIRST[1:])
    world.publish(world.land(9, [row(9, 4, 40)]))
    assert world.rows() == expected(SECOND[0], row(9, 4, 40), *FIRST[1:])


def test_an_engine_in_sql_refuses_them(world: FeedOnStandIn) -> None:
    name = land(world, 7, FIRST)
    with pytest.raises(DeliveryRefused, match=r"column \[date\] is missing(?s:.*)column \[update_id\] is missing"):
        world.publish(name, engine="bigquery", replay=True, reason="without Spark")
