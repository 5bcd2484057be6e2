"""Casts to the declared types: a NULL STRUCT with REQUIRED fields stays NULL, and is written as such."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.arrow_cast import cast_array, cast_table
from dedup_spark.column_types import arrow_schema

SCALARS = {"BOOL": True, "BYTES": b"b", "INT64": 1, "FLOAT64": 1.5, "NUMERIC": Decimal("1.500000000"), "STRING": "s"}


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


@pytest.mark.parametrize("kind", SCALARS)
def test_null_struct_with_a_required_field(kind: str) -> None:
    column = Column("c", "STRUCT", fields=(required("a", kind), Column("b", "INT64")))
    values = [{"a": SCALARS[kind], "b": None}, None, {"a": SCALARS[kind], "b": 2}]
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
