"""Which Parquet types hold a declared type, and the casts to it, beyond the files of tests/shared/bad_deliveries.py."""

from __future__ import annotations

import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.arrow_cast import cast_array, cast_table
from dedup_spark.column_types import arrow_schema
from dedup_spark.landing.footers import footer_problems

UTC = pa.timestamp("us", tz="UTC")


def written(table: pa.Table) -> io.BytesIO:
    stream = io.BytesIO()
    pq.write_table(table, stream, store_schema=False)
    return stream


def problems(*columns: tuple[Column, pa.DataType]) -> list[str]:
    """Those of a file that has other types than the declared columns."""
    declared = (*(column for column, _ in columns), Column("date", "DATE"), Column("update_id", "INT64"))
    table = TableContract(declared, "date", "update_id", ("date",), (), 730)
    found = {column.name: kind for column, kind in columns}
    schema = pa.schema({**found, "date": pa.date32(), "update_id": pa.int64()})
    return footer_problems(table, pq.read_metadata(written(schema.empty_table())))


@pytest.mark.parametrize(
    ("declared", "found"),
    [("INT64", UTC), ("FLOAT64", pa.float16()), ("TIMESTAMP", pa.int64())],
)
def test_types_that_do_not_hold_the_declared_one(declared: str, found: pa.DataType) -> None:
    (problem,) = problems((Column("c", declared), found))
    assert problem.startswith("column [c] is [")
    assert f"], expected [{declared}]" in problem


ELEMENTS = Column("c", "STRUCT", ColumnMode.REPEATED, (Column("b", "STRING", ColumnMode.REPEATED),))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            pa.list_(pa.struct([("b", pa.list_(pa.binary()))])),
            "column [c.b] is [BYTE_ARRAY], expected [STRING] (BYTE_ARRAY annotated STRING)",
        ),
        (pa.struct([("b", pa.string())]), "column [c] is [struct<b: string>], expected [ARRAY of STRUCT]"),
    ],
)
def test_a_nested_column_of_another_type_is_named_with_its_path(found: pa.DataType, said: str) -> None:
    assert problems((ELEMENTS, found)) == [said]


def test_columns_after_a_wrong_nested_one_are_compared_by_their_own_types() -> None:
    wrong = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    (problem,) = problems((Column("c", "INT64"), wrong), (Column("z", "STRING"), pa.string()))
    assert problem.startswith("column [c] is ")


TYPES = {"BOOL": pa.bool_(), "BYTES": pa.binary(), "INT64": pa.int64(), "FLOAT64": pa.float64(), "STRING": pa.string()}
TYPES |= {"NUMERIC": pa.decimal128(38, 9)}
ONE_OF_EACH = {
    "BOOL": True,
    "BYTES": b"b",
    "INT64": 1,
    "FLOAT64": 1.5,
    "STRING": "s",
    "NUMERIC": Decimal("1.500000000"),
}


def required(name: str, kind: str, *fields: Column) -> Column:
    return Column(name, kind, ColumnMode.REQUIRED, fields)


def test_null_structs_with_required_fields_of_each_type_are_cast_and_read_back() -> None:
    """Inside the NULL STRUCT is a STRUCT that is required too. Also if only a part of the values is cast."""
    inner = required("s", "STRUCT", *(required(kind, kind) for kind in ONE_OF_EACH))
    schema = arrow_schema((Column("c", "STRUCT", fields=(inner,)),))
    values = [{"s": ONE_OF_EACH}, None, {"s": ONE_OF_EACH}]
    loose = pa.schema([("c", pa.struct([("s", pa.struct(list(TYPES.items())))]))])
    read = pq.read_table(written(pa.Table.from_pylist([{"c": value} for value in values], schema=loose)))
    cast = cast_table(read, schema)
    assert cast.schema == schema
    assert pq.read_table(written(cast))["c"].to_pylist() == values
    assert cast_array(read["c"].chunk(0).slice(1), schema.field("c").type).to_pylist() == values[1:]


def test_null_in_a_required_field_of_a_present_struct_is_never_replaced() -> None:
    declared = arrow_schema((Column("c", "STRUCT", fields=(required("a", "INT64"),)),)).field("c").type
    cast = cast_array(pa.array([{"a": None}, None], type=pa.struct([("a", pa.int64())])), declared)
    assert cast.to_pylist() == [{"a": None}, None]
