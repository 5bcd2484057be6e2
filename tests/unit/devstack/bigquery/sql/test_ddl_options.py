"""OPTIONS values are checked by type, and unsupported options refused by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from devstack.bigquery.bigquery_errors import InvalidQuery
from devstack.bigquery.sql.ddl_options import TableOptions, evaluate_options, evaluate_schema_options
from devstack.bigquery.sql.interval_values import interval_microseconds
from devstack.bigquery.sql.script_parser import parse_script
from devstack.bigquery.sql.statements import AlterTableSetOptions, CreateSchema
from tests.unit.devstack.bigquery.sql.duckdb_query import run


def value_of(expression: Any) -> Any:
    return run(f"SELECT {expression.sql(dialect='bigquery')} AS x")[1][0][0]


def options_of(text: str) -> TableOptions:
    (statement,) = parse_script(f"ALTER TABLE d.t SET OPTIONS ({text})").statements
    assert isinstance(statement, AlterTableSetOptions)
    return evaluate_options(statement.options, value_of)


def test_values_are_read() -> None:
    assert options_of(
        "partition_expiration_days = 730, require_partition_filter = TRUE, description = 'a' || 'b', "
        "friendly_name = NULL, labels = [STRUCT('generation', '41'), ('digest', 'ab-c')], "
        "expiration_timestamp = TIMESTAMP '2030-01-01 00:00:00+00'"
    ) == TableOptions(
        named=frozenset(
            {
                "partition_expiration_days",
                "require_partition_filter",
                "description",
                "friendly_name",
                "labels",
                "expiration_timestamp",
            }
        ),
        partition_expiration_days=730.0,
        require_partition_filter=True,
        description="ab",
        labels=(("generation", "41"), ("digest", "ab-c")),
        expiration_timestamp=datetime(2030, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("text", "printed", "microseconds"),
    [
        ("INTERVAL 10 MINUTE", "0-0 0 0:10:0", 600_000_000),
        ("INTERVAL 90 SECOND", "0-0 0 0:1:30", 90_000_000),
        ("INTERVAL 48 HOUR", "0-0 0 48:0:0", 172_800_000_000),
        ("INTERVAL 1 DAY", "0-0 1 0:0:0", 86_400_000_000),
        ("INTERVAL 14 MONTH", "1-2 0 0:0:0", 420 * 86_400_000_000),
        ("INTERVAL '4:0:00' HOUR TO SECOND", "0-0 0 4:0:0", 14_400_000_000),
        ("INTERVAL '1-0 2 0:15:0' YEAR TO SECOND", "1-0 2 0:15:0", (362 * 86_400 + 900) * 1_000_000),
    ],
)
def test_staleness_is_kept_as_bigquery_prints_it(text: str, printed: str, microseconds: int) -> None:
    staleness = options_of(f"max_staleness = {text}").max_staleness
    assert staleness == printed
    assert interval_microseconds(printed) == microseconds


def test_no_options_name_nothing() -> None:
    assert evaluate_options((), value_of) == TableOptions()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partition_expiration_days = 'x'", r"expected type \[FLOAT64\]"),
        ("partition_expiration_days = 0", r"above \[0\]"),
        ("require_partition_filter = 1", r"expected type \[BOOL\]"),
        ("max_staleness = '10 minutes'", r"expected type \[INTERVAL\]"),
        ("max_staleness = INTERVAL -1 DAY", "not negative"),
        ("description = 3", r"expected type \[STRING\]"),
        ("expiration_timestamp = DATETIME '2030-01-01 00:00:00'", r"expected type \[TIMESTAMP\]"),
        ("labels = 'x'", "ARRAY<STRUCT<STRING, STRING>>"),
        ("labels = [('a', 'b', 'c')]", "ARRAY<STRUCT<STRING, STRING>>"),
        ("labels = [('Upper', 'b')]", r"Label key \[Upper\]"),
        ("labels = [('a', 'B')]", r"Label value \[B\]"),
        ("labels = [('a', 'b'), ('a', 'c')]", "a key twice"),
    ],
)
def test_wrong_value_is_an_invalid_query(text: str, message: str) -> None:
    with pytest.raises(InvalidQuery, match=message):
        options_of(text)


def test_schema_has_options_of_its_own() -> None:
    (statement,) = parse_script("CREATE SCHEMA d OPTIONS (location = 'US')").statements
    assert isinstance(statement, CreateSchema)
    assert evaluate_schema_options(statement.options, value_of).location == "US"
