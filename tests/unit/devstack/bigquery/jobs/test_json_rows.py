"""Newline-delimited JSON is converted to rows or refused as in BigQuery."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.jobs.json_rows import parse_rows
from devstack.bigquery.sql.field_types import TableField

MOMENT = datetime(2026, 1, 31, 1, 2, 3, tzinfo=UTC)


def parsed(kind: str, value: Any, mode: str = "NULLABLE") -> Any:
    content = json.dumps({"c": value}).encode()
    return parse_rows("f", content, [TableField("c", kind, mode)]).column("c")[0].as_py()


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("INT64", "5", 5),
        ("INT64", 5.0, 5),
        ("FLOAT64", "1.5", 1.5),
        ("BOOL", "TRUE", True),
        ("STRING", 1.5, "1.5"),
        ("STRING", True, "true"),
        ("BYTES", "AP8=", b"\x00\xff"),
        ("DATE", "2026-01-31", date(2026, 1, 31)),
        ("TIMESTAMP", "2026-01-31 01:02:03 UTC", MOMENT),
        ("TIMESTAMP", "2026-01-31T03:02:03+02:00", MOMENT),
        ("TIMESTAMP", MOMENT.timestamp(), MOMENT),
        ("NUMERIC", "0.1", Decimal("0.1")),
    ],
)
def test_values_are_converted(kind: str, value: Any, expected: Any) -> None:
    assert parsed(kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value", "mode"),
    [
        ("INT64", "x", "NULLABLE"),
        ("INT64", 1.5, "NULLABLE"),
        ("INT64", "1_000", "NULLABLE"),
        ("FLOAT64", "1_000", "NULLABLE"),
        ("NUMERIC", "1_000", "NULLABLE"),
        ("INT64", True, "NULLABLE"),
        ("FLOAT64", True, "NULLABLE"),
        ("TIMESTAMP", True, "NULLABLE"),
        ("BOOL", 1, "NULLABLE"),
        ("DATE", "31.1.2026", "NULLABLE"),
        ("STRING", {"a": 1}, "NULLABLE"),
        ("INT64", 5, "REPEATED"),
        ("STRING", ["a", None], "REPEATED"),
    ],
)
def test_values_of_another_type_are_refused_with_row_and_field(kind: str, value: Any, mode: str) -> None:
    with pytest.raises(Invalid, match=r"in row \[1\]: .*[Ff]ield:? c"):
        parsed(kind, value, mode)


def test_unknown_fields_and_broken_lines_are_refused() -> None:
    columns = [TableField("c", "STRUCT", fields=(TableField("d", "INT64"),))]
    with pytest.raises(Invalid, match=r"row \[2\]: No such field: c\.e"):
        parse_rows("f", b'{"c": {"d": 1}}\n{"c": {"e": 1}}', columns)
    with pytest.raises(Invalid, match=r"row \[1\]"):
        parse_rows("f", b"{", columns)
    with pytest.raises(Invalid, match="expected a JSON object"):
        parse_rows("f", b"[1]", columns)


def test_required_field_must_be_given() -> None:
    with pytest.raises(Invalid, match="Required field c cannot be null"):
        parse_rows("f", b"{}", [TableField("c", "INT64", "REQUIRED")])


@pytest.mark.parametrize(
    ("kind", "value"),
    [("INT64", 2**63), ("NUMERIC", "1" * 30), ("NUMERIC", "0.0123456789"), ("TIMESTAMP", 10**20), ("STRING", "\ud800")],
)
def test_a_value_that_its_column_cannot_hold_is_refused_with_its_row(kind: str, value: Any) -> None:
    content = b'{"c": null}\n\n' + json.dumps({"c": value}).encode()
    with pytest.raises(Invalid, match=r"JSON parsing error in row \[3\]: "):
        parse_rows("f", content, [TableField("c", kind)])
