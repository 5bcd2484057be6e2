"""The text of a row is the same whether Arrow makes it of a file's row or SQL of the table's."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dedup_clone.audit.row_text_arrow import row_texts
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.warehouse.row_text_sql import row_text
from devstack.zetasql.evaluate import ReferenceEvaluator
from tests.shared.audit_values import COLUMNS, TABLE, batch, literal, random_rows
from tests.thoroughness import seeds

ROWS_AT_ONCE = 20


@pytest.mark.parametrize("seed", seeds(4))
def test_random_rows_have_the_text_that_googles_implementation_gives(reference: ReferenceEvaluator, seed: int) -> None:
    rows = random_rows(seed, ROWS_AT_ONCE)
    selects = [
        f"SELECT {number} AS position, " + ", ".join(f"{literal(c, row[c.name])} AS `{c.name}`" for c in COLUMNS)
        for number, row in enumerate(rows)
    ]
    sql = f"SELECT {row_text(TABLE)} FROM ({' UNION ALL '.join(selects)}) ORDER BY position"
    assert row_texts(TABLE, batch(rows)).to_pylist() == [found for (found,) in reference.evaluate(sql).rows]


def test_a_part_of_a_batch_has_the_texts_of_its_rows() -> None:
    rows = random_rows(99, 50)
    assert row_texts(TABLE, batch(rows).slice(13, 20)).to_pylist() == row_texts(TABLE, batch(rows[13:33])).to_pylist()


def text_of(column: Column, values: pa.Array) -> list[str]:
    table = TableContract((column,), "date", "update_id", ("date",), (), 730)
    return row_texts(table, pa.RecordBatch.from_arrays([values], [column.name])).to_pylist()


def test_what_bigquery_tells_apart_has_texts_that_differ() -> None:
    text = text_of(Column("c", "STRING"), pa.array([None, "", "n", "0:"]))
    assert len(set(text)) == 4
    numbers = text_of(Column("c", "FLOAT64"), pa.array([None, 0.0, float("nan"), float("inf"), float("-inf"), 5e-324]))
    assert len(set(numbers)) == 6
    lists = text_of(Column("c", "STRING", ColumnMode.REPEATED), pa.array([[], [""], ["", ""], ["0:"], ["0:;0:"]]))
    assert len(set(lists)) == 5
    fields = (Column("a", "INT64"), Column("b", "INT64"))
    structs = pa.array([None, {"a": None, "b": None}, {"a": 1, "b": None}, {"a": None, "b": 1}])
    assert len(set(text_of(Column("c", "STRUCT", fields=fields), structs))) == 4


def test_what_bigquery_does_not_tell_apart_makes_no_difference() -> None:
    zero, negative = text_of(Column("c", "FLOAT64"), pa.array([0.0, -0.0]))
    assert zero == negative
    empty, missing = text_of(Column("c", "INT64", ColumnMode.REPEATED), pa.array([[], None], pa.list_(pa.int64())))
    assert empty == missing


@pytest.mark.parametrize(
    ("kind", "narrow", "wide"),
    [
        ("INT64", pa.array([1, -5, None], pa.int32()), pa.array([1, -5, None], pa.int64())),
        ("INT64", pa.array([1, 2**32 - 1], pa.uint32()), pa.array([1, 2**32 - 1], pa.int64())),
        ("FLOAT64", pa.array([0.5, 0.1], pa.float32()), pa.array([0.5, 0.10000000149011612])),
        ("TIMESTAMP", pa.array([1, -1], pa.timestamp("ms", "UTC")), pa.array([1000, -1000], pa.timestamp("us", "UTC"))),
        ("DATETIME", pa.array([1, -1], pa.timestamp("ms")), pa.array([1000, -1000], pa.timestamp("us"))),
        (
            "NUMERIC",
            pa.array(["1.5", "-0.01"]).cast(pa.decimal128(5, 2)),
            pa.array(["1.5", "-0.01"]).cast(pa.decimal128(38, 9)),
        ),
        (
            "NUMERIC",
            pa.array(["150", "-7"]).cast(pa.decimal128(5, 0)),
            pa.array(["150", "-7"]).cast(pa.decimal128(38, 9)),
        ),
        ("BYTES", pa.array([b"ab", None], pa.binary(2)), pa.array([b"ab", None])),
    ],
)
def test_a_narrower_form_of_a_value_has_the_same_text(kind: str, narrow: pa.Array, wide: pa.Array) -> None:
    assert text_of(Column("c", kind), narrow) == text_of(Column("c", kind), wide)
