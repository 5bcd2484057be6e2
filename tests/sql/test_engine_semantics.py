"""The engines' statements on Google's reference implementation of GoogleSQL: its answer is the oracle's.

The tables are written into the statements as literals, for that implementation knows none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from dedup_clone.contract.engine import SqlForm
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.warehouse.sql_files import TableNames, render
from devstack.zetasql.service import ZetaSql, running_zetasql
from testkit.generated_tables import GeneratedHistory, random_table
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.table_contracts import NESTED, oracle_table
from tests.shared.random_rows import FIRST_DAY, random_rows
from tests.sql.rendering import SQL
from tests.thoroughness import times

DAYS = 2
Row = dict[str, Any]


@pytest.fixture(scope="module")
def google() -> Iterator[ZetaSql]:
    with running_zetasql() as started:
        yield started


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
    kinds = ", ".join(f"`{c.name}` {type_of(c)}" for c in table.columns)
    values = ",\n".join(literal(row, Column("", "STRUCT", fields=table.columns)) for row in rows)
    return f"UNNEST(ARRAY<STRUCT<{kinds}>>[{values}])"


def type_of(column: Column) -> str:
    fields = ", ".join(f"{f.name} {type_of(f)}" for f in column.fields)
    inner = f"STRUCT<{fields}>" if fields else column.type
    return f"ARRAY<{inner}>" if column.mode is ColumnMode.REPEATED else inner


def literal(value: Any, column: Column) -> str:
    if value is None:
        return "NULL"
    if column.mode is ColumnMode.REPEATED:
        element = Column("", column.type, fields=column.fields)
        return f"{type_of(column)}[{', '.join(literal(item, element) for item in value)}]"
    if column.fields:
        return f"STRUCT({', '.join(literal(value[f.name], f) for f in column.fields)})"
    if isinstance(value, float):
        named = {math.inf: "'inf'", -math.inf: "'-inf'"}.get(value, "'nan'" if math.isnan(value) else repr(str(value)))
        return f"CAST({named} AS FLOAT64)"
    if isinstance(value, bytes):
        return f"FROM_HEX('{value.hex()}')"
    if isinstance(value, datetime):
        return f"{column.type} '{value:%Y-%m-%d %H:%M:%S.%f}{'+00' if value.tzinfo else ''}'".replace("'1-", "'0001-")
    if isinstance(value, date):
        return f"DATE '{value}'"
    if isinstance(value, Decimal):
        return f"NUMERIC '{value:f}'"
    if value == -(2**63):
        return "CAST('-9223372036854775808' AS INT64)"  # as a literal it is the negation of a number out of range
    return str(value).upper() if isinstance(value, bool) else repr(value)


def statement(
    name: str,
    table: TableContract,
    target: Sequence[Row],
    incoming: Sequence[Row],
    has_parent: bool,
    form: SqlForm = SqlForm.QUALIFY,
) -> str:
    names = Literals("p", "d", "s", "t", table, incoming, target)
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


@pytest.mark.parametrize("seed", range(times(4, 8)))
def test_statements_of_the_engines(google: ZetaSql, seed: int) -> None:
    random = Random(seed)
    publishes = [
        [OracleDelivery(n, random_rows(random, n, DAYS, [])) for n in ids] for ids in ((3,), (1, 4), (2, 4, 5))
    ]
    assert_equal(google, NESTED, publishes)


@pytest.mark.parametrize("seed", range(times(6, 200)))
def test_statements_of_the_engines_for_a_generated_table(google: ZetaSql, seed: int) -> None:
    random = Random(seed)
    table = random_table(random, floats_in_arrays=False)
    history = GeneratedHistory(table, random, FIRST_DAY, days=DAYS, repeat=0.5)
    assert_equal(google, table, [[OracleDelivery(n, history.snapshot(n)) for n in ids] for ids in ((3,), (1, 4))])


def assert_equal(google: ZetaSql, table: TableContract, publishes: Sequence[Sequence[OracleDelivery]]) -> None:
    """Assert that the statements have the oracle's rows and counts after each publish."""
    expected = OracleState(oracle_table(table))
    for step, deliveries in enumerate(publishes):
        incoming = [row for delivery in deliveries for row in delivery.rows]
        before = list(expected.rows.values())
        expected = expected.apply(deliveries, FIRST_DAY)
        asked = (table, before, incoming, step > 0)
        for form in SqlForm:
            winners = google.evaluate(statement("engines/bigquery/deduplicate.sql", *asked, form))
            found_rows = [as_row(table, cells) for cells in winners.rows]
            assert comparable(expected.table, found_rows) == expected.table_rows(), form
        evidence = google.evaluate(statement("engines/evidence.sql", *asked))
        found = [dict(zip(evidence.names, cells, strict=True)) for cells in evidence.rows]
        assert {
            day["found_day"]: [day[n] for n in ("row_count", "new_keys", "changed", "survivors")] for day in found
        } == {
            day: [counts.rows, counts.new_keys, counts.changed, counts.survivors]
            for day, counts in expected.counts.items()
        }
        ties = {day["found_day"]: sum(surplus for _, surplus in day["ties"]) for day in found}
        assert ties == {day: counts.ties for day, counts in expected.counts.items()}
