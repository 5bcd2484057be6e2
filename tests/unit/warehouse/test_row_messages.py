"""Rows as messages, by BigQuery's page "Supported protocol buffer and Arrow data types"; NULL is an absent field."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.warehouse.row_messages import RowMessages, sequence_number


def decoded(column: Column, value: Any) -> Any:
    messages = RowMessages((column,))
    return messages._message.FromString(messages.upsert({column.name: value}, "1"))


@pytest.mark.parametrize(
    ("kind", "value", "sent"),
    [
        ("BOOL", False, False),
        ("BYTES", b"\x00\xff", b"\x00\xff"),
        ("DATE", date(1, 1, 1), -719162),
        ("DATE", date(9999, 12, 31), 2932896),
        ("DATETIME", datetime(999, 1, 2, 3, 4, 5, 6, tzinfo=UTC).replace(tzinfo=None), "0999-01-02 03:04:05.000006"),
        ("FLOAT64", -0.0, -0.0),
        ("INT64", -(2**63), -(2**63)),
        ("NUMERIC", Decimal("1E+28"), "1" + 28 * "0"),
        ("NUMERIC", Decimal("-0.000000001"), "-0.000000001"),
        ("STRING", "ä\x00", "ä\x00"),
        ("TIMESTAMP", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), -1),
        ("TIMESTAMP", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), 253402300799999999),
    ],
)
def test_each_type_is_sent_as_bigquery_takes_it(kind: str, value: Any, sent: Any) -> None:
    assert decoded(Column("value", kind), value).value == sent
    assert list(decoded(Column("value", kind, ColumnMode.REPEATED), [value, value]).value) == [sent, sent]
    assert not decoded(Column("value", kind), None).HasField("value")


def test_nested_columns_have_messages_of_their_own() -> None:
    city = Column("city", "STRUCT", fields=(Column("name", "STRING"), Column("zip", "INT64")))
    stores = Column("stores", "STRUCT", ColumnMode.REPEATED, (city, Column("id", "INT64")))
    row = decoded(stores, [{"city": {"name": "Ulm", "zip": None}, "id": 1}, {"city": None, "id": 2}])
    assert [store.id for store in row.stores] == [1, 2]
    assert row.stores[0].city.name == "Ulm"
    assert not row.stores[0].city.HasField("zip")
    assert not row.stores[1].HasField("city")


def test_a_struct_of_nulls_is_not_a_null() -> None:
    city = Column("city", "STRUCT", fields=(Column("name", "STRING"),))
    assert decoded(city, {"name": None}).HasField("city")
    assert not decoded(city, None).HasField("city")


def test_each_row_replaces_that_of_its_key() -> None:
    messages = RowMessages((Column("id", "INT64"),))
    row = messages._message.FromString(messages.upsert({"id": 1}, sequence_number(7, 2**63 - 1, 31)))
    assert (row._CHANGE_TYPE, row._CHANGE_SEQUENCE_NUMBER) == ("UPSERT", "7/7FFFFFFFFFFFFFFF/1F")
    assert re.fullmatch(r"[0-9A-F]{1,16}(/[0-9A-F]{1,16}){0,3}", row._CHANGE_SEQUENCE_NUMBER)
