"""Which Parquet types hold a declared type, and the casts to it."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.arrow_cast import cast_array, cast_table
from dedup_spark.column_types import arrow_schema
from dedup_spark.landing.footers import Footer, read_footer

OTHERS = (Column("date", "DATE"), Column("update_id", "INT64"))


def footer(declared: Column, found: dict[str, pa.DataType], **options: Any) -> Footer:
    table = TableContract((declared, *OTHERS), "date", "update_id", ("date",), (), 730)
    schema = pa.schema({**found, "date": pa.date32(), "update_id": pa.int64()})
    stream = io.BytesIO()
    pq.write_table(schema.empty_table(), stream, **options)
    return read_footer(table, pq.read_metadata(stream))


# For each declared type, the Arrow types that a file may have, and those that it may not.
HOLDS: dict[str, list[pa.DataType]] = {
    "INT64": [pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.uint8(), pa.uint16(), pa.uint32()],
    "FLOAT64": [pa.float64(), pa.float32()],
    "BOOL": [pa.bool_()],
    "STRING": [pa.string(), pa.dictionary(pa.int32(), pa.string())],
    "BYTES": [pa.binary(), pa.binary(4)],
    "DATE": [pa.date32()],
    "TIMESTAMP": [pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="Europe/Berlin")],
    "DATETIME": [pa.timestamp("us")],
    "NUMERIC": [pa.decimal128(38, 9), pa.decimal128(10, 2)],
}
DOES_NOT_HOLD: dict[str, list[pa.DataType]] = {
    "INT64": [
        *(pa.uint64(), pa.float64(), pa.string(), pa.timestamp("us", tz="UTC"), pa.decimal128(18, 0)),
        pa.list_(pa.int64()),
    ],
    "FLOAT64": [pa.int64(), pa.float16()],
    "BOOL": [pa.int8()],
    "STRING": [pa.binary()],
    "BYTES": [pa.string()],
    "DATE": [pa.int32(), pa.timestamp("us", tz="UTC")],
    "TIMESTAMP": [pa.timestamp("us"), pa.int64()],
    "DATETIME": [pa.timestamp("us", tz="UTC")],
    "NUMERIC": [pa.decimal128(38, 10), pa.decimal128(38, 0), pa.float64()],
}


@pytest.mark.parametrize("declared", HOLDS)
def test_types_that_hold_the_declared_one_are_accepted_and_others_are_not(declared: str) -> None:
    for found in HOLDS[declared]:
        assert footer(Column("c", declared), {"c": found}).problems == (), found
    for found in DOES_NOT_HOLD[declared]:
        (problem,) = footer(Column("c", declared), {"c": found}).problems
        assert problem.startswith("column [c] is ["), found
        assert f"], expected [{declared}]" in problem


@pytest.mark.parametrize(
    ("options", "said"), [({"use_deprecated_int96_timestamps": True}, "INT96"), ({"version": "2.6"}, "nanoseconds")]
)
def test_timestamps_of_96_bits_or_nanoseconds_are_a_problem(options: dict[str, Any], said: str) -> None:
    (problem,) = footer(Column("c", "TIMESTAMP"), {"c": pa.timestamp("ns", tz="UTC")}, **options).problems
    assert said in problem


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
    result = read_footer(table, pq.read_metadata(stream))
    assert [problem.split(" is ")[0] for problem in result.problems] == ["column [c]"]


ONE_OF_EACH = {
    "BOOL": True,
    "BYTES": b"b",
    "INT64": 1,
    "FLOAT64": 1.5,
    "NUMERIC": Decimal("1.500000000"),
    "STRING": "s",
}


def required(name: str, kind: str, *fields: Column) -> Column:
    return Column(name, kind, ColumnMode.REQUIRED, fields)


def round_trip(column: Column, values: list[Any]) -> list[Any]:
    """The values, cast from what a writer of nullable columns leaves, and then read back."""
    schema = arrow_schema((column,))
    loose = pa.Table.from_pylist([{"c": value} for value in values], schema=pa.schema([_loose(schema.field("c"))]))
    read = pq.read_table(_written(loose))
    cast = cast_table(read, schema)
    assert cast.schema == schema
    assert cast_array(read["c"].chunk(0).slice(1), schema.field("c").type).to_pylist() == values[1:]
    return pq.read_table(_written(cast))["c"].to_pylist()


def _written(table: pa.Table) -> io.BytesIO:
    stream = io.BytesIO()
    pq.write_table(table, stream, store_schema=False)
    return stream


def _loose(field: pa.Field) -> pa.Field:
    if pa.types.is_struct(field.type):
        return pa.field(field.name, pa.struct([_loose(inner) for inner in field.type]))
    if pa.types.is_list(field.type):
        return pa.field(field.name, pa.list_(_loose(field.type.value_field)))
    return field.with_nullable(True)


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_null_struct_with_a_required_field(kind: str) -> None:
    column = Column("c", "STRUCT", fields=(required("a", kind), Column("b", "INT64")))
    values = [{"a": ONE_OF_EACH[kind], "b": None}, None, {"a": ONE_OF_EACH[kind], "b": 2}]
    assert round_trip(column, values) == values


def test_null_struct_with_a_required_struct_of_required_fields() -> None:
    inner = required("s", "STRUCT", required("a", "STRING"), Column("b", "INT64"))
    values = [None, {"s": {"a": "x", "b": None}}, None, {"s": {"a": "", "b": 1}}]
    assert round_trip(Column("c", "STRUCT", fields=(inner,)), values) == values


def test_null_structs_in_elements_of_an_array() -> None:
    inner = Column("s", "STRUCT", fields=(required("a", "STRING"),))
    column = Column("c", "STRUCT", ColumnMode.REPEATED, (required("n", "INT64"), inner))
    values = [[{"n": 1, "s": None}, {"n": 2, "s": {"a": "x"}}], [], [{"n": 3, "s": None}], None]
    assert round_trip(column, values) == values


def test_null_in_a_required_field_of_a_present_struct_is_never_replaced() -> None:
    declared = arrow_schema((Column("c", "STRUCT", fields=(required("a", "INT64"),)),)).field("c").type
    cast = cast_array(pa.array([{"a": None}, None], type=pa.struct([("a", pa.int64())])), declared)
    assert cast.to_pylist() == [{"a": None}, None]
