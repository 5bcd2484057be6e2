"""The comparison of a partition on Google's reference implementation of GoogleSQL: it counts what an oracle counts.

Both sides are written into the statement as literals, for that implementation knows no tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from dedup_clone.contract.table import Column, TableContract
from dedup_clone.publish.partition_comparison import PUBLISHED_FILES, SQL_FILE
from dedup_clone.warehouse.row_sql import as_in_files
from dedup_clone.warehouse.sql_files import TableNames, render
from devstack.zetasql.service import ZetaSql, running_zetasql
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
from tests.sql.rendering import SQL

ROWS = random_rows(3, 40)


@pytest.fixture(scope="module")
def google() -> Iterator[ZetaSql]:
    with running_zetasql() as started:
        yield started


@dataclass(frozen=True)
class Literals(TableNames):
    """Names that stand for rows. `rows`: the SQL text of target."""

    rows: str = ""

    @property
    def target(self) -> str:
        return self.rows


def table_of(table: TableContract, rows: list[Row]) -> str:
    as_struct = Column("", "STRUCT", fields=table.columns)
    values = ",\n".join(literal(as_struct, row) for row in rows)
    return f"UNNEST(ARRAY<{sql_type(as_struct)}>[{values}])"


def compare(google: ZetaSql, table: TableContract, rows: list[Row], *, with_files: bool) -> tuple[int, ...]:
    in_files = table_of(as_in_files(table), ROWS)
    names = Literals("p", "d", "s", "t", table_of(table, rows))
    sql = render(SQL, SQL_FILE, names=names, table=table, expected="" if with_files else table_of(table, ROWS))
    sql = sql.replace("@compared_date", f"DATE '{DAY}'").replace(f"FROM {PUBLISHED_FILES}", f"FROM {in_files}")
    (found,) = google.evaluate(sql.rstrip().removesuffix(";")).rows
    return found


@pytest.mark.parametrize("damage", damages())
def test_each_damage_is_counted(google: ZetaSql, damage: str) -> None:
    rows = damaged(ROWS, damage)
    assert compare(google, narrow_table(damage), rows, with_files=True) == comparison(rows, ROWS)


@pytest.mark.parametrize("with_files", [True, False])
def test_all_types_in_one_table(google: ZetaSql, with_files: bool) -> None:
    rows = [*damaged(ROWS, "list.inside.f_bytes changed"), *random_rows(4, 10)]
    assert compare(google, TABLE, rows, with_files=with_files) == comparison(rows, ROWS) == (50, 40, 1, 11)
