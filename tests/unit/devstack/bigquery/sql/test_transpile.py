"""Parameters, variables, tables, the current time, column names and errors in DuckDB SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlglot import exp

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.field_types import QueryValue, TableField
from devstack.bigquery.sql.statements import TableName
from devstack.bigquery.sql.transpile import supported_functions
from tests.unit.devstack.bigquery.sql.duckdb_query import run
from tests.unit.devstack.bigquery.sql.statement_cases import tree

VALUES: dict[str, tuple[str, Any]] = {
    "int": ("INT64", 5),
    "float": ("FLOAT64", 1.5),
    "bool": ("BOOL", True),
    "text": ("STRING", "it's"),
    "bytes": ("BYTES", b"\x00'a"),
    "date": ("DATE", date(2024, 2, 29)),
    "timestamp": ("TIMESTAMP", datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)),
    "numeric": ("NUMERIC", Decimal("1.5")),
    "null": ("STRING", None),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("written", ["@p", "?", "v"])
def test_value_keeps_its_type(name: str, written: str) -> None:
    type_name, value = VALUES[name]
    parameter = QueryValue.scalar(type_name, value)
    fields, rows = run(f"SELECT {written} AS x", {"P": parameter, "1": parameter}, {"V": parameter})
    assert fields == (TableField("x", type_name),)
    assert rows == [(value,)]


def test_array_of_structs_parameter_is_unnested_to_its_fields() -> None:
    kind = TableField("", "STRUCT", "REPEATED", (TableField("a", "INT64"), TableField("b", "STRING")))
    value = QueryValue(kind, [{"a": 1, "b": "x"}, {"a": 2, "b": None}])
    assert run("SELECT * FROM UNNEST(@rows) ORDER BY a", {"rows": value})[1] == [(1, "x"), (2, None)]


def test_positional_parameter_is_accepted_where_a_named_one_is() -> None:
    parameters = {"1": QueryValue.scalar("STRING", "%Y"), "2": QueryValue.scalar("INT64", 1)}
    query = "SELECT FORMAT_DATE(?, DATE '2024-12-31' + ?) AS year FROM UNNEST([1, 2]) LIMIT ?"
    assert run(query, {**parameters, "3": QueryValue.scalar("INT64", 1)})[1] == [("2025",)]
    structs = TableField("", "STRUCT", "REPEATED", (TableField("a", "INT64"),))
    assert run("SELECT a FROM UNNEST(?)", {"1": QueryValue(structs, [{"a": 5}])})[1] == [(5,)]


def test_missing_parameter_is_named() -> None:
    with pytest.raises(InvalidQuery, match="Query parameter 'absent' not found"):
        run("SELECT @absent")


def test_column_of_a_table_wins_over_a_variable() -> None:
    variables = {"x": QueryValue.scalar("INT64", 7)}
    resolved = "(SELECT 1 AS x)"
    assert run("SELECT x AS y FROM d.t", {}, variables, lambda *_: resolved)[1] == [(7,)]
    assert run("SELECT x AS y FROM d.t", {}, variables, lambda *_: resolved, shadowing_columns={"X"})[1] == [(1,)]


def test_variable_that_is_also_an_alias_is_refused() -> None:
    variables = {"x": QueryValue.scalar("INT64", 7)}
    with pytest.raises(NotImplementedConstruct, match="both a variable and a column alias"):
        run("SELECT x FROM (SELECT x + y AS x FROM UNNEST([2, 1]) AS y)", {}, variables)
    assert run("SELECT x + y AS x FROM UNNEST([2, 1]) AS y ORDER BY x", {}, variables)[1] == [(8,), (9,)]


def test_tables_are_resolved_with_their_time() -> None:
    asked: list[tuple[TableName, exp.Expression | None]] = []

    def resolve(name: TableName, time: exp.Expression | None) -> str:
        asked.append((name, time))
        return "(SELECT 1 AS a)"

    query = "SELECT t.a, u.a AS b FROM p.d.t, d.s AS u FOR SYSTEM_TIME AS OF TIMESTAMP_SUB(@now, INTERVAL 1 HOUR)"
    assert run(query, resolve=resolve)[1] == [(1, 1)]
    assert asked == [
        (TableName("t", "d", "p"), None),
        (TableName("s", "d"), tree("TIMESTAMP_SUB(@now, INTERVAL 1 HOUR)")),
    ]


def test_clock_is_the_one_given() -> None:
    _, rows = run("SELECT CURRENT_DATE(), CURRENT_DATE, CURRENT_TIMESTAMP(), DATE_SUB(CURRENT_DATE(), INTERVAL 1 DAY)")
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert rows == [(now.date(), now.date(), now, date(2024, 5, 5))]


def test_nameless_columns_are_numbered_as_bigquery_does() -> None:
    fields, _ = run("SELECT 1, a, a + 1, s.b, COUNT(*) OVER () FROM (SELECT 1 AS a, STRUCT(2 AS b) AS s)")
    assert [field.name for field in fields] == ["f0_", "a", "f1_", "b", "f2_"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1 / 0", "division by zero: 1 / 0"),
        ("SELECT CAST('x' AS INT64)", "Bad int64 value: x"),
        ("SELECT [1][OFFSET(3)]", "Array index 3 is out of bounds"),
        ("SELECT 9223372036854775807 + 1", "Overflow"),
        ("SELECT ERROR('boom')", "boom"),
        ("SELECT MOD(1, 0)", "Division by zero"),
        ("SELECT PARSE_DATE('%F', 'x')", "Could not parse"),
        ("SELECT COALESCE(1 / 0, 7)", "division by zero: 1 / 0"),
        ("SELECT IFNULL(ERROR('boom'), 1)", "boom"),
        ("SELECT COALESCE(x / 0, 7) FROM UNNEST([1]) x", "division by zero"),
        ("SELECT LN(0)", "Floating point error in function: LN(0)"),
        ("SELECT SQRT(-1)", "Floating point error in function: SQRT(-1)"),
        ("SELECT POW(0, -1)", "Floating point error in function: POW(0, -1)"),
        ("SELECT EXP(1000)", "Floating point error in function: EXP(1000)"),
        ("SELECT GENERATE_ARRAY(1, 5, 0)", "Sequence step cannot be 0"),
        ("SELECT RPAD('a', -1)", "Second argument in RPAD() cannot be negative"),
        # Page: "Query syntax", visibility of aliases: WHERE is not among the clauses that see the SELECT list.
        ("SELECT x + 1 AS y FROM UNNEST([1]) x WHERE y > 1", '"y" not found'),
        ("SELECT s.x AS x FROM (SELECT STRUCT(1 AS x) AS s) WHERE x > 0", '"x" not found'),
        (
            "SELECT x + 1 AS y FROM UNNEST([1]) x WHERE EXISTS (SELECT 1 FROM UNNEST([2]) z WHERE z = y)",
            '"y" not found',
        ),
        ("SELECT x * x FROM (SELECT NUMERIC '99999999999999999999999999999' AS x)", "Overflow"),
        ("SELECT LEFT(b'a', -1)", "Second argument in LEFT() cannot be negative"),
        ("SELECT LEFT([1], 1)", "No matching signature for a function of STRING or BYTES"),
    ],
)
def test_failure_at_run_is_an_invalid_query(query: str, message: str) -> None:
    with pytest.raises(InvalidQuery) as failure:
        run(query)
    assert message in failure.value.message


@pytest.mark.parametrize(
    ("query", "construct"),
    [
        ("SELECT NUMERIC '1' / 2", "division of NUMERIC"),
        ("SELECT AVG(x) FROM UNNEST([NUMERIC '1']) x", "AVG over NUMERIC"),
        ("SELECT DATE_TRUNC(x, MONTH) FROM (SELECT TIMESTAMP '2024-01-01' AS x)", "DATE function of a TIMESTAMP"),
        (
            "SELECT TIMESTAMP_ADD(x, INTERVAL 1 HOUR) FROM (SELECT DATETIME '2024-01-01' AS x)",
            "TIMESTAMP function of a DATETIME",
        ),
        ("SELECT * FROM (SELECT [STRUCT(1 AS a)] AS s), UNNEST(s) AS e", "SELECT * over UNNEST of an array of STRUCTs"),
        ("SELECT CAST([1] AS STRING)", "CAST of ARRAY or STRUCT AS STRING"),
        ("SELECT FORMAT('%t', [1])", "CAST of ARRAY or STRUCT AS STRING"),
        ("SELECT DIV(NUMERIC '5.5', 2)", "DIV of NUMERIC"),
        # Page: "Data types", STRUCT: the fields are compared in their order, whatever their names.
        (
            "SELECT a = b FROM (SELECT STRUCT(1 AS x) AS a, STRUCT(1 AS y) AS b)",
            "comparison of STRUCTs of different types",
        ),
        (
            "SELECT a[OFFSET(0)] IN (b.s) FROM (SELECT [STRUCT(1 AS x)] AS a, STRUCT(STRUCT(1 AS y) AS s) AS b)",
            "comparison of STRUCTs of different types",
        ),
        (
            "SELECT 1 FROM (SELECT STRUCT(1 AS x) AS a) t LEFT JOIN (SELECT STRUCT(1 AS y) AS a) u ON t.a = u.a",
            "comparison of STRUCTs of different types",
        ),
    ],
)
def test_what_only_types_can_tell_is_refused_at_run(query: str, construct: str) -> None:
    with pytest.raises(NotImplementedConstruct) as refusal:
        run(query)
    assert construct in refusal.value.construct


def test_supported_functions_are_listed_by_name() -> None:
    names = supported_functions()
    assert {"COUNT", "SAFE_DIVIDE", "DATE_DIFF", "ROW_NUMBER", "CAST"} <= set(names)
    assert list(names) == sorted(set(names))
