"""Values of protocol buffer rows, at the bounds of BigQuery's types. Page: "Supported protocol buffer and Arrow data
types"."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.write_api.storage_errors import Code, RowsRefused, WriteApiError
from devstack.bigquery.write_api.writer_schema import RowReader, message_class
from tests.shared import write_api_client

LAST_MICROSECOND = 253_402_300_799_999_999  # of the year 9999
LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def read(kind: type[Message], column: TableField, *values: Any) -> list[Any]:
    rows = [kind(v=value).SerializePartialToString() for value in values]
    return [row.values["v"] for row in RowReader(kind, (column,), "s").read(rows, lambda row: None)]


def read_as(column: str, field: str, *values: Any) -> list[Any]:
    return read(write_api_client.message_class({"v": field}), TableField("v", column), *values)


@pytest.mark.parametrize(
    ("column", "field", "sent", "expected"),
    [
        ("DATE", "int32", -719_162, date.min),
        ("DATE", "int64", 2_932_896, date.max),
        ("TIMESTAMP", "int64", -62_135_596_800_000_000, datetime(1, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP", "int64", LAST_MICROSECOND, LAST_MOMENT),
        ("NUMERIC", "string", "9" * 29 + "." + "9" * 9, Decimal("9" * 29 + "." + "9" * 9)),
        ("NUMERIC", "string", "0.0000000005", Decimal("0.000000001")),
        ("NUMERIC", "double", 0.1, Decimal("0.1")),
        ("NUMERIC", "uint64", 2**64 - 1, Decimal(2**64 - 1)),
        ("BOOL", "int32", 2, True),
        ("BOOL", "uint64", 0, False),
        ("BYTES", "string", "ü", "ü".encode()),
        ("INT64", "uint32", 2**32 - 1, 2**32 - 1),
        ("INT64", "sfixed64", -(2**63), -(2**63)),
        ("FLOAT64", "float", 0.5, 0.5),
        ("STRING", "string", "", ""),
    ],
)
def test_value_is_converted(column: str, field: str, sent: Any, expected: Any) -> None:
    assert read_as(column, field, sent) == [expected]


@pytest.mark.parametrize(
    ("column", "field", "sent"),
    [
        ("DATE", "int32", -719_163),
        ("DATE", "int64", 2_932_897),
        ("DATE", "string", "2026-02-30"),
        ("DATETIME", "string", "2026-01-01T00:00:00Z"),
        ("DATETIME", "int64", 0),
        ("TIME", "int64", 24 << 32),
        ("TIMESTAMP", "int64", LAST_MICROSECOND + 1),
        ("NUMERIC", "string", "1" + "0" * 29),
        ("NUMERIC", "string", "one"),
        ("NUMERIC", "double", float("nan")),
    ],
)
def test_value_that_the_type_lacks_makes_its_row_wrong(column: str, field: str, sent: Any) -> None:
    with pytest.raises(RowsRefused) as refused:
        read_as(column, field, None, sent)
    (error,) = refused.value.row_errors
    assert (error.index, "Field v: cannot convert" in error.message) == (1, True)


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("INT64", "string"),
        ("STRING", "bytes"),
        ("STRING", "int64"),
        ("TIMESTAMP", "string"),
        ("DATE", "uint32"),
        ("FLOAT64", "int64"),
        ("BYTES", "google.protobuf.StringValue"),
        ("STRUCT", "int64"),
    ],
)
def test_type_that_is_not_in_the_list_is_refused(column: str, field: str) -> None:
    with pytest.raises(WriteApiError, match="which cannot be converted to"):
        read_as(column, field, None)


def test_an_enum_is_a_name_in_a_string_and_a_number_in_an_integer() -> None:
    descriptor = DescriptorProto(name="Row")
    colour = descriptor.enum_type.add(name="Colour")
    for number, name in ((1, "RED"), (2, "BLUE")):
        colour.value.add(name=name, number=number)
    descriptor.field.add(name="v", number=1, type="TYPE_ENUM", type_name=".Row.Colour", label="LABEL_OPTIONAL")
    kind = message_class(descriptor)
    assert read(kind, TableField("v", "STRING"), 2, None) == ["BLUE", None]
    assert read(kind, TableField("v", "INT64"), 2, None) == [2, None]


def test_a_required_column_needs_a_field_and_a_value() -> None:
    column = TableField("v", "INT64", "REQUIRED")
    with pytest.raises(RowsRefused):
        read(write_api_client.message_class({"v": "int64"}), column, None)
    kind = write_api_client.message_class({"w": "int64"})
    with pytest.raises(WriteApiError, match="lacks the required field v"):
        RowReader(kind, (column, TableField("w", "INT64")), "s")


def test_an_unknown_field_of_a_record_is_refused_with_its_path() -> None:
    kind = write_api_client.message_class({"v": {"a": "int64", "b": "int64"}})
    column = TableField("v", "STRUCT", fields=(TableField("a", "INT64"),))
    with pytest.raises(WriteApiError, match=r"unknown to BigQuery: v\.b") as refused:
        RowReader(kind, (column,), "s")
    assert refused.value.storage_code == Code.SCHEMA_MISMATCH_EXTRA_FIELDS


@given(st.datetimes())
def test_packed_datetimes_and_times_are_those_that_were_packed(moment: datetime) -> None:
    packed_date = ((moment.year * 16 + moment.month) * 32 + moment.day) << 37
    packed_time = (((moment.hour * 64 + moment.minute) * 64 + moment.second) << 20) + moment.microsecond
    assert read_as("DATETIME", "int64", packed_date + packed_time) == [moment]
    clock: time = moment.time()
    assert read_as("TIME", "int64", packed_time) == [clock]


@given(st.integers(min_value=1 - 10**38, max_value=10**38 - 1))
def test_encoded_numerics_are_those_that_were_encoded(unscaled: int) -> None:
    sign = "-" if unscaled < 0 else ""
    digits = str(abs(unscaled)).zfill(10)
    number = Decimal(f"{sign}{digits[:-9]}.{digits[-9:]}")
    assert read_as("NUMERIC", "bytes", unscaled.to_bytes(16, "little", signed=True)) == [number]
    assert read_as("NUMERIC", "string", str(number)) == [number]
