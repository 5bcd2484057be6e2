"""APPROX_QUANTILES, which Google's reference implementation lacks. Source: "Approximate aggregate functions"."""

from __future__ import annotations

import pytest

from devstack.bigquery.bigquery_errors import InvalidQuery
from tests.unit.devstack.bigquery.sql.duckdb_query import run


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("APPROX_QUANTILES(x, 2) FROM UNNEST([1, 1, 1, 4, 5, 6, 7, 8, 9, 10]) x", [1, 5, 10]),
        ("APPROX_QUANTILES(x, 4)[OFFSET(2)] FROM UNNEST([30, NULL, 10, 20]) x", 20),
        (
            "APPROX_QUANTILES(DISTINCT x, 2 IGNORE NULLS) FROM UNNEST(['b', 'a', 'a', 'a', NULL, 'c']) x",
            ["a", "b", "c"],
        ),
        ("APPROX_QUANTILES(x, 2) FROM UNNEST(ARRAY<INT64>[]) x", None),
    ],
)
def test_quantiles_of_values_that_are_not_null(call: str, expected: object) -> None:
    columns, ((found,),) = run(f"SELECT {call}")
    assert found == expected
    assert columns[0].sql_type().startswith("ARRAY<") == (expected is None or isinstance(expected, list))


@pytest.mark.parametrize("call", ["APPROX_QUANTILES(x, 0)", "APPROX_QUANTILES(x, x)", "APPROX_QUANTILES(x)"])
def test_the_number_of_quantiles_is_a_positive_literal(call: str) -> None:
    with pytest.raises(InvalidQuery):
        run(f"SELECT {call} FROM UNNEST([1, 2]) x")


def test_quantiles_are_no_key_of_group_by_all() -> None:
    _, rows = run("SELECT x > 1 AS big, APPROX_QUANTILES(x, 1) FROM UNNEST([1, 2, 3]) x GROUP BY ALL ORDER BY big")
    assert [tuple(row) for row in rows] == [(False, [1, 1]), (True, [2, 3])]
