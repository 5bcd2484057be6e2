"""SELECTs run on DuckDB return the expected rows, as does Google's reference implementation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from devstack.zetasql.evaluate import ReferenceEvaluator
from tests.unit.devstack.bigquery.sql.duckdb_query import run
from tests.unit.devstack.bigquery.sql.select_cases import SELECTS

CASES = [
    pytest.param(text, rows, id=f"{topic}: {text[:60]}") for topic, cases in SELECTS.items() for text, rows in cases
]
# What the reference implementation returns changes with the cases only, so that one in six is asked each time.
ASKED = [
    pytest.param(*case.values, id=case.id, marks=pytest.mark.exhaustive if number % 6 else ())
    for number, case in enumerate(CASES)
]
# Google's type of a STRUCT without field names, or of NULL || text, cannot be seen in any value.
TYPES_DIFFER = ("SELECT STRUCT(1, 'x')", "SELECT CONCAT('a', NULL)")


def comparable(value: Any) -> Any:
    """Structs as tuples of values, NaN equal to itself, whole numbers of any width as int."""
    if isinstance(value, Mapping):
        return tuple(comparable(item) for item in value.values())
    if isinstance(value, list | tuple):
        return type(value)(comparable(item) for item in value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


def in_order(text: str, rows: Any) -> list[Any]:
    found = [comparable(tuple(row)) for row in rows]
    return found if " ORDER BY " in text else sorted(found, key=repr)


@pytest.mark.parametrize(("text", "rows"), CASES)
def test_rows_are_the_expected_ones(text: str, rows: list[tuple[Any, ...]]) -> None:
    assert in_order(text, run(text)[1]) == in_order(text, rows)


@pytest.mark.parametrize(("text", "rows"), ASKED)
def test_rows_and_types_are_those_of_the_reference_implementation(
    reference: ReferenceEvaluator, text: str, rows: list[tuple[Any, ...]]
) -> None:
    answer = reference.evaluate(text)
    assert in_order(text, rows) == in_order(text, answer.rows)
    if not text.startswith(TYPES_DIFFER):
        assert tuple(field.sql_type() for field in run(text)[0]) == answer.types
