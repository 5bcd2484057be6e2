"""Footers: which Parquet types hold a declared type."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.landing.footer_schema import Footer, read_footer

OTHERS = (Column("date", "DATE"), Column("update_id", "INT64"))


def footer(declared: Column, found: dict[str, pa.DataType], **options: Any) -> Footer:
    table = TableContract((declared, *OTHERS), "date", "update_id", ("date",), (), 730)
    schema = pa.schema({**found, "date": pa.date32(), "update_id": pa.int64()})
    stream = io.BytesIO()
    pq.write_table(schema.empty_table(), stream, **options)
    return read_footer(table, pq.read_metadata(stream).schema)


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("INT64", pa.int64()),
        ("INT64", pa.int32()),
        ("INT64", pa.int16()),
        ("INT64", pa.int8()),
        ("INT64", pa.uint8()),
        ("INT64", pa.uint16()),
        ("INT64", pa.uint32()),
        ("FLOAT64", pa.float64()),
        ("FLOAT64", pa.float32()),
        ("BOOL", pa.bool_()),
        ("STRING", pa.string()),
        ("STRING", pa.dictionary(pa.int32(), pa.string())),
        ("BYTES", pa.binary()),
        ("BYTES", pa.binary(4)),
        ("DATE", pa.date32()),
        ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP", pa.timestamp("ms", tz="Europe/Berlin")),
        ("DATETIME", pa.timestamp("us")),
        ("NUMERIC", pa.decimal128(38, 9)),
        ("NUMERIC", pa.decimal128(10, 2)),
    ],
)
def test_type_that_holds_the_declared_one_is_accepted(declared: str, found: pa.DataType) -> None:
    assert footer(Column("c", declared), {"c": found}).problems == ()


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("INT64", pa.uint64()),
        ("INT64", pa.float64()),
        ("INT64", pa.string()),
        ("INT64", pa.timestamp("us", tz="UTC")),
        ("INT64", pa.decimal128(18, 0)),
        ("INT64", pa.list_(pa.int64())),
        ("FLOAT64", pa.int64()),
        ("FLOAT64", pa.float16()),
        ("STRING", pa.binary()),
        ("BYTES", pa.string()),
        ("DATE", pa.int32()),
        ("DATE", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP", pa.timestamp("us")),
        ("TIMESTAMP", pa.int64()),
        ("DATETIME", pa.timestamp("us", tz="UTC")),
        ("NUMERIC", pa.decimal128(38, 10)),
        ("NUMERIC", pa.decimal128(38, 0)),
        ("NUMERIC", pa.float64()),
        ("BOOL", pa.int8()),
    ],
)
def test_changed_type_is_a_problem_that_names_column_found_and_expected(declared: str, found: pa.DataType) -> None:
    (problem,) = footer(Column("c", declared), {"c": found}).problems
    assert problem.startswith("column [c] is [")
    assert f"], expected [{declared}]" in problem


def test_int96_timestamp_is_a_problem() -> None:
    found = {"c": pa.timestamp("ns", tz="UTC")}
    (problem,) = footer(Column("c", "TIMESTAMP"), found, use_deprecated_int96_timestamps=True).problems
    assert "INT96" in problem


def test_nanoseconds_are_a_problem() -> None:
    (problem,) = footer(Column("c", "TIMESTAMP"), {"c": pa.timestamp("ns", tz="UTC")}, version="2.6").problems
    assert "nanoseconds" in problem


def test_missing_and_unlisted_columns_are_problems() -> None:
    problems = footer(Column("c", "STRING"), {"C": pa.string()}).problems
    assert problems == (
        "column [C] is not declared in the feed file: only its case differs from [c], write it as declared",
        "column [c] is missing, expected [STRING]",
    )


NESTED = Column(
    "c",
    "STRUCT",
    ColumnMode.REPEATED,
    (
        Column("a", "INT64"),
        Column("b", "STRING", ColumnMode.REPEATED),
        Column("s", "STRUCT", fields=(Column("x", "DATE"),)),
    ),
)


def nested(**fields: pa.DataType) -> dict[str, pa.DataType]:
    return {"c": pa.list_(pa.struct(list(fields.items())))}


def test_fields_may_be_in_any_order() -> None:
    found = nested(s=pa.struct([("x", pa.date32())]), b=pa.list_(pa.string()), a=pa.int16())
    result = footer(NESTED, found)
    assert result.problems == ()
    assert result.narrow == {"c.a": (-32768, 32767)}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (nested(a=pa.int64(), b=pa.list_(pa.string())), "column [c] has fields ['a', 'b'], expected ['a', 'b', 's']"),
        (
            nested(a=pa.int64(), b=pa.list_(pa.binary()), s=pa.struct([("x", pa.date32())])),
            "column [c.b] is [BYTE_ARRAY], expected [STRING] (BYTE_ARRAY annotated STRING)",
        ),
        (
            nested(a=pa.int64(), b=pa.list_(pa.string()), s=pa.struct([("x", pa.int32())])),
            "column [c.s.x] is [INT32], expected [DATE] (INT32 annotated DATE)",
        ),
        ({"c": pa.struct([("a", pa.int64())])}, "column [c] is [struct<a: int64>], expected [ARRAY of STRUCT]"),
        (
            {"c": pa.map_(pa.string(), pa.int64())},
            "column [c] is [map<string, int64 ('c')>], expected [ARRAY of STRUCT]",
        ),
    ],
    ids=["field_missing", "element_type", "inner_type", "not_repeated", "map"],
)
def test_changed_nested_column_is_a_problem_naming_the_inner_field(found: dict[str, pa.DataType], said: str) -> None:
    assert footer(NESTED, found).problems == (said,)


def test_columns_after_a_wrong_nested_one_are_compared_by_their_own_types() -> None:
    table = TableContract(
        (Column("c", "INT64"), Column("z", "STRING"), *OTHERS), "date", "update_id", ("date",), (), 730
    )
    wrong = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    schema = pa.schema([("c", wrong), ("z", pa.string()), ("date", pa.date32()), ("update_id", pa.int64())])
    stream = io.BytesIO()
    pq.write_table(schema.empty_table(), stream)
    result = read_footer(table, pq.read_metadata(stream).schema)
    assert [problem.split(" is ")[0] for problem in result.problems] == ["column [c]"]
