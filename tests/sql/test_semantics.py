"""The statements of the engines and of the audit on Google's reference implementation of GoogleSQL.

Its answer is that of an oracle in Python. The tables are written into the statements as literals, for that
implementation knows none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import pytest

from dedup_clone.contract.engine import SqlForm
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.engines.delivery_examination import LANDED_TABLE
from dedup_clone.publish.partition_comparison import PUBLISHED_FILES, SQL_FILE
from dedup_clone.warehouse.row_sql import as_in_files
from dedup_clone.warehouse.sql_files import TableNames, render
from testkit.feed_on_stand_in import SQL
from testkit.generated_tables import GeneratedHistory, random_table
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.table_contracts import NESTED, by_time, oracle_table
from testkit.zetasql import ZetaSql
from tests.sql.compared_rows import (
    DAY,
    TABLE,
    Row,
    comparison,
    damaged,
    damages,
    literal,
    narrow_table,
    random_rows,
    sql_type,
)
from tests.thoroughness import times

FIRST_DAY, DAYS = date(2026, 3, 1), 2
ROWS = random_rows(3, 40)
# Default time zones of a project (BigQuery's page "Manage configuration settings"). UTC is the usual one.
ZONES = ["UTC", "America/New_York"]
# Names in the statements, and of functions, types and keywords.
NAMES = [
    *("best", "changed", "counted", "delivered", "differs", "found", "held", "held_id", "incoming", "is_new"),
    *("is_there", "new_keys", "newest_id", "row_count", "snapshot_id", "surplus", "survivors", "ties", "winner_id"),
    *("key_1", "key_2", "value_1", "value_2", "element_1", "element_2", "position_1", "position_2"),
    *("concat", "count", "date", "from", "ifnull", "max", "order", "select", "struct", "timestamp", "unnest"),
]


@dataclass(frozen=True)
class Literals(TableNames):
    """Names that stand for rows."""

    table: TableContract = NESTED
    incoming_rows: Sequence[Row] = field(default=())
    target_rows: Sequence[Row] = field(default=())

    @property
    def incoming(self) -> str:
        return table_of(self.table, self.incoming_rows)

    @property
    def target(self) -> str:
        return table_of(self.table, self.target_rows)


def table_of(table: TableContract, rows: Sequence[Row]) -> str:
    as_struct = Column("", "STRUCT", fields=table.columns)
    values = ",\n".join(literal(as_struct, row) for row in rows)
    return f"UNNEST(ARRAY<{sql_type(as_struct)}>[{values}])"


# -- The engines


def statement(
    name: str,
    table: TableContract,
    target: Sequence[Row],
    incoming: Sequence[Row],
    has_parent: bool,
    form: SqlForm = SqlForm.QUALIFY,
) -> str:
    names = Literals("p", "d", "s", "t", table=table, incoming_rows=incoming, target_rows=target)
    sql = render(SQL, name, names=names, table=table, has_parent=has_parent, form=form)
    last = date(2026, 12, 31)
    for parameter, day in (("retention_day", FIRST_DAY), ("first_day", FIRST_DAY), ("last_day", last)):
        sql = sql.replace(f"@{parameter}", f"DATE '{day}'")
    return sql.rstrip().removesuffix(";")


def as_row(table: TableContract, cells: tuple[Any, ...]) -> Row:
    def named(value: Any, column: Column) -> Any:
        if column.mode is ColumnMode.REPEATED:
            return [named(item, Column("", column.type, fields=column.fields)) for item in value or []]
        if column.fields and value is not None:
            return {f.name: named(item, f) for f, item in zip(column.fields, value, strict=True)}
        return value

    return {c.name: named(cell, c) for c, cell in zip(table.columns, cells, strict=True)}


def renamed(columns: tuple[Column, ...], random: Random) -> dict[str, Column]:
    """The columns under other names, which are those of NAMES, by their former names. Fields get other names, too."""
    names = random.sample(NAMES, len(columns))
    return {
        column.name: replace(column, name=name, fields=tuple(renamed(column.fields, random).values()))
        for column, name in zip(columns, names, strict=True)
    }


def with_other_names(table: TableContract, random: Random) -> TableContract:
    columns = renamed(table.columns, random)
    return TableContract(
        tuple(columns.values()),
        columns[table.partition_column].name,
        columns[table.snapshot_id_column].name,
        tuple(columns[name].name for name in table.keys),
        tuple(columns[name].name for name in table.cluster_by),
        table.retention_days,
    )


@pytest.mark.parametrize("seed", range(times(12, 200)))
def test_statements_of_the_engines(zetasql: ZetaSql, seed: int) -> None:
    """Their rows and counts are the oracle's after each publish."""
    random = Random(seed)
    table = random_table(random, floats_in_arrays=False) if seed % 5 > 1 else NESTED
    table = by_time(table, random.choice(["DATETIME", "TIMESTAMP"])) if seed % 2 else table
    table = with_other_names(table, random) if seed % 3 else table
    zone = ZONES[seed // 2 % 2]
    history = GeneratedHistory(table, random, FIRST_DAY, days=DAYS, repeat=0.5)
    expected = OracleState(oracle_table(table))
    for step, ids in enumerate(((3,), (1, 4), (2, 4, 5))):
        deliveries = [OracleDelivery(n, history.snapshot(n)) for n in ids]
        incoming = [row for delivery in deliveries for row in delivery.rows]
        before = list(expected.rows.values())
        expected = expected.apply(deliveries, FIRST_DAY)
        asked = (table, before, incoming, step > 0)
        for form in SqlForm:
            winners = zetasql.evaluate(statement("engines/bigquery/deduplicate.sql", *asked, form), zone)
            found_rows = [as_row(table, cells) for cells in winners.rows]
            assert comparable(expected.table, found_rows) == expected.table_rows(), form
        evidence = zetasql.evaluate(statement("engines/evidence.sql", *asked), zone)
        found = [dict(zip(evidence.names, cells, strict=True)) for cells in evidence.rows]
        assert {
            day["found_day"]: [day[n] for n in ("row_count", "new_keys", "changed", "survivors")] for day in found
        } == {
            day: [counts.rows, counts.new_keys, counts.changed, counts.survivors]
            for day, counts in expected.counts.items()
        }
        ties = {day["found_day"]: sum(surplus for _, surplus in day["ties"]) for day in found}
        assert ties == {day: counts.ties for day, counts in expected.counts.items()}


# -- The comparison of a partition


def compare(
    zetasql: ZetaSql, table: TableContract, rows: list[Row], *, with_files: bool, zone: str = "UTC"
) -> tuple[int, ...]:
    in_files = table_of(as_in_files(table), ROWS)
    names = Literals("p", "d", "s", "t", table=table, target_rows=rows)
    sql = render(SQL, SQL_FILE, names=names, table=table, expected="" if with_files else table_of(table, ROWS))
    sql = sql.replace("@compared_date", f"DATE '{DAY}'").replace(f"FROM {PUBLISHED_FILES}", f"FROM {in_files}")
    (found,) = zetasql.evaluate(sql.rstrip().removesuffix(";"), zone).rows
    return found


@pytest.mark.parametrize("damage", damages())
def test_each_damage_is_counted(zetasql: ZetaSql, damage: str) -> None:
    rows = damaged(ROWS, damage)
    assert compare(zetasql, narrow_table(damage), rows, with_files=True) == comparison(rows, ROWS)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("with_files", [True, False])
def test_all_types_in_one_table(zetasql: ZetaSql, with_files: bool, zone: str) -> None:
    rows = [*damaged(ROWS, "list.inside.f_bytes changed"), *random_rows(4, 10)]
    found = compare(zetasql, TABLE, rows, with_files=with_files, zone=zone)
    assert found == comparison(rows, ROWS) == (50, 40, 1, 11)


# -- The examination of a delivery


def test_a_delivery_is_counted_whatever_its_columns_are_called(zetasql: ZetaSql) -> None:
    """BigQuery's page "Query syntax", range variables: the name of a table in FROM means the whole row."""
    names = ("delivery", "landed", "row_id", "row_day")
    day, key, update_id, value = (
        Column(name, kind) for name, kind in zip(names, ("DATETIME", "INT64", "INT64", "STRING"), strict=True)
    )
    required = replace(value, mode=ColumnMode.REQUIRED)
    table = TableContract((day, key, update_id, required), day.name, update_id.name, (day.name, key.name), (), 730)
    rows = [
        dict(zip(names, cells, strict=True))
        for cells in (
            (datetime(2026, 2, 28, 23, tzinfo=UTC), 1, 7, "a"),  # older than the retention
            (datetime(2026, 3, 1, tzinfo=UTC), None, 7, "a"),
            (datetime(2026, 3, 1, 23, 59, tzinfo=UTC), 2, 8, None),
            (datetime(2026, 3, 2, tzinfo=UTC), 3, 7, None),  # later than the latest day
        )
    ]
    landed = f"(SELECT *, 'gs://b/date=2026-03-01/f.parquet' AS _FILE_NAME FROM {table_of(as_in_files(table), rows)})"
    sql = render(SQL, "engines/examine_delivery.sql", names=TableNames("p", "d", "s", "t"), table=table)
    sql = sql.replace(f"FROM {LANDED_TABLE}", f"FROM {landed} AS {LANDED_TABLE}")
    parameters = {"snapshot_id": "7", "retention_day": "DATE '2026-03-01'", "latest_day": "DATE '2026-03-01'"}
    for parameter, text in (parameters | {"date_folders": "TRUE"}).items():
        sql = sql.replace(f"@{parameter}", text)
    found = zetasql.evaluate(sql.rstrip().removesuffix(";"), "America/New_York")
    ((_, *counts, nulls),) = found.rows
    assert found.names[1:-1] == (
        *("row_count", "dropped_rows", "first_day", "last_day", "late_rows"),
        *("other_day_rows", "other_day", "other_id_rows"),
    )
    assert counts == [4, 1, date(2026, 3, 1), date(2026, 3, 2), 1, 2, date(2026, 2, 28), 1]
    assert nulls == [("delivery", 0), ("landed", 1), ("row_id", 0), ("row_day", 2)]
