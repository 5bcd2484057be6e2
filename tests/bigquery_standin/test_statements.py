"""Scripts leave behind what statements.sql says, or are refused as it says; parameters, the clock, and dry runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery import (
    ArrayQueryParameter,
    QueryJob,
    QueryJobConfig,
    ScalarQueryParameter,
    StructQueryParameter,
)

from testkit.zetasql import ZetaSql
from tests.bigquery_standin.test_selects import comparable, sections, selects
from tests.bigquery_standin.warehouse import Warehouse

SECTIONS = sections("statements.sql")
REFUSED = [
    (title.removeprefix("refused: "), *line.split(" ;; "))
    for title in SECTIONS
    if title.startswith("refused: ")
    for line in SECTIONS[title]
]
SCRIPTS = [case for title in SECTIONS if not title.startswith("refused: ") for case in selects(SECTIONS[title])]


@pytest.mark.parametrize(("script", "rows"), SCRIPTS, ids=lambda value: str(value)[:60])
def test_a_script_ends_with_these_rows(warehouse: Warehouse, script: str, rows: Sequence[tuple[Any, ...]]) -> None:
    assert [comparable(row) for row in warehouse.rows(script)] == rows


@pytest.mark.parametrize(("reason", "before", "script"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_script_is_refused(warehouse: Warehouse, reason: str, before: str, script: str) -> None:
    warehouse.job(before)
    assert warehouse.refusal(script)[0] == reason


def test_every_script_is_googlesql(zetasql: ZetaSql) -> None:
    assert {script: zetasql.check(script) for script, _ in SCRIPTS if zetasql.check(script)} == {}


PARAMETERS = {
    "INT64": 5,
    "FLOAT64": 1.5,
    "BOOL": True,
    "STRING": "it's",
    "BYTES": b"\x00'a",
    "DATE": date(2024, 2, 29),
    "TIMESTAMP": datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC),
    "NUMERIC": Decimal("1.5"),
}


@pytest.mark.parametrize("kind", PARAMETERS)
def test_a_parameter_keeps_its_type(shared: Warehouse, kind: str) -> None:
    given = [ScalarQueryParameter("p", kind, PARAMETERS[kind])]
    assert shared.rows("SELECT @p AS x", query_parameters=given) == [(PARAMETERS[kind],)]
    script = f"DECLARE v {kind} DEFAULT @p; SELECT v, v = @p"
    assert shared.rows(script, query_parameters=given) == [(PARAMETERS[kind], True)]


@pytest.mark.parametrize("kind", PARAMETERS)
def test_an_array_is_a_parameter_even_if_it_is_empty(shared: Warehouse, kind: str) -> None:
    for values in ([PARAMETERS[kind]] * 2, []):
        given = [ArrayQueryParameter("p", kind, values)]
        found = shared.rows("SELECT x FROM UNNEST(@p) x", query_parameters=given)
        assert found == [(value,) for value in values]


def test_parameters_are_formats_and_amounts(shared: Warehouse) -> None:
    values = [ScalarQueryParameter(*given) for given in (("format", "STRING", "%Y"), ("days", "INT64", 1))]
    sql = "SELECT FORMAT_DATE(@format, DATE_ADD(DATE '2024-12-31', INTERVAL @days DAY)) AS year"
    assert shared.rows(sql, query_parameters=values) == [("2025",)]


def test_other_parameters_are_refused(shared: Warehouse) -> None:
    struct = StructQueryParameter("p", ScalarQueryParameter("a", "INT64", 1))
    for parameter in (struct, ScalarQueryParameter(None, "INT64", 1)):
        assert shared.refusal("SELECT 1", query_parameters=[parameter])[0] == "notImplemented"


def test_a_query_has_one_time_of_the_stand_ins_clock_and_names_columns_as_bigquery_does(warehouse: Warehouse) -> None:
    warehouse.advance(days=400)
    before = warehouse.now()
    ((now, today),) = warehouse.rows("SELECT CURRENT_TIMESTAMP(), CURRENT_DATE() FROM UNNEST([1]) AS x")
    assert before <= now <= warehouse.now()
    assert today == now.date()
    schema = warehouse.job("SELECT 1, a, a + 1, ROW_NUMBER() OVER () FROM (SELECT 1 AS a)").result().schema
    assert [field.name for field in schema] == ["f0_", "a", "f1_", "f2_"]


def dry_run(warehouse: Warehouse, sql: str) -> QueryJob:
    return warehouse.client.query(sql, QueryJobConfig(dry_run=True), retry=None, job_retry=None)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT v, v AS V FROM d.t",
        "UPDATE d.t SET v = 'x' WHERE TRUE",
        "DELETE FROM d.t WHERE w = 1",
        "MERGE d.t USING (SELECT 1 AS v) s ON t.w = s.v WHEN MATCHED THEN DELETE",
    ],
)
def test_a_dry_run_is_refused_as_the_run_is(warehouse: Warehouse, sql: str) -> None:
    warehouse.job("CREATE TABLE d.t (v INT64)")
    with pytest.raises(GoogleAPICallError) as refused:
        dry_run(warehouse, sql)
    assert refused.value.errors[0]["reason"] == warehouse.refusal(sql)[0]


def test_a_dry_run_of_other_statements_is_refused(warehouse: Warehouse) -> None:
    warehouse.job("CREATE TABLE d.t (v INT64)")
    for sql in ("INSERT d.t VALUES (1)", "DROP TABLE d.t", "CREATE TABLE d.u AS SELECT 1 AS v"):
        with pytest.raises(GoogleAPICallError, match="dry run"):
            dry_run(warehouse, sql)
