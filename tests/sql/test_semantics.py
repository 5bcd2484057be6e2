"""The statements of the engines and of the audit on Google's reference implementation of GoogleSQL.

Its answer is that of an oracle in Python. The tables are written into the statements as literals, for that
implementation knows none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from random import Random
from typing import Any

import pytest

from dedup_clone.contract.engine import SqlForm
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.publish.partition_comparison import PUBLISHED_FILES, SQL_FILE
from dedup_clone.warehouse.row_sql import as_in_files
from dedup_clone.warehouse.sql_files import TableNames, render
from testkit.feed_on_stand_in import SQL
from testkit.generated_tables import GeneratedHistory, random_table
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.table_contracts import NESTED, oracle_table
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


@pytest.mark.parametrize("seed", range(times(10, 200)))
def test_statements_of_the_engines(zetasql: ZetaSql, seed: int) -> None:
    """Their rows and counts are the oracle's after each publish."""
    random = Random(seed)
    table = random_table(random, floats_in_arrays=False) if seed % 5 > 1 else NESTED
    history = GeneratedHistory(table, random, FIRST_DAY, days=DAYS, repeat=0.5)
    expected = OracleState(oracle_table(table))
    for step, ids in enumerate(((3,), (1, 4), (2, 4, 5))):
        deliveries = [OracleDelivery(n, history.snapshot(n)) for n in ids]
        incoming = [row for delivery in deliveries for row in delivery.rows]
        before = list(expected.rows.values())
        expected = expected.apply(deliveries, FIRST_DAY)
        asked = (table, before, incoming, step > 0)
        for form in SqlForm:
            winners = zetasql.evaluate(statement("engines/bigquery/deduplicate.sql", *asked, form))
            found_rows = [as_row(table, cells) for cells in winners.rows]
            assert comparable(expected.table, found_rows) == expected.table_rows(), form
        evidence = zetasql.evaluate(statement("engines/evidence.sql", *asked))
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


def compare(zetasql: ZetaSql, table: TableContract, rows: list[Row], *, with_files: bool) -> tuple[int, ...]:
    in_files = table_of(as_in_files(table), ROWS)
    names = Literals("p", "d", "s", "t", table=table, target_rows=rows)
    sql = render(SQL, SQL_FILE, names=names, table=table, expected="" if with_files else table_of(table, ROWS))
    sql = sql.replace("@compared_date", f"DATE '{DAY}'").replace(f"FROM {PUBLISHED_FILES}", f"FROM {in_files}")
    (found,) = zetasql.evaluate(sql.rstrip().removesuffix(";")).rows
    return found


@pytest.mark.parametrize("damage", damages())
def test_each_damage_is_counted(zetasql: ZetaSql, damage: str) -> None:
    rows = damaged(ROWS, damage)
    assert compare(zetasql, narrow_table(damage), rows, with_files=True) == comparison(rows, ROWS)


@pytest.mark.parametrize("with_files", [True, False])
def test_all_types_in_one_table(zetasql: ZetaSql, with_files: bool) -> None:
    rows = [*damaged(ROWS, "list.inside.f_bytes changed"), *random_rows(4, 10)]
    assert compare(zetasql, TABLE, rows, with_files=with_files) == comparison(rows, ROWS) == (50, 40, 1, 11)
