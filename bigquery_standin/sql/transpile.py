"""Translates a BigQuery query or expression to DuckDB SQL.

The connection that runs the SQL must have the time zone UTC. SUM over INT64 is HUGEINT in DuckDB, so the caller must
check that its result fits INT64, and convert it. Known differences from BigQuery: comparisons treat NaN as equal to
itself and greater than all numbers; operators on FLOAT64 give infinity where BigQuery reports an overflow; products of
NUMERIC overflow from 1e20 on, not from 1e29; dates and times may leave the years 1 to 9999; and some type errors are
not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import count

from sqlglot import exp

from bigquery_standin.sql.field_types import QueryValue
from bigquery_standin.sql.query_generator import QueryGenerator
from bigquery_standin.sql.syntax import first_select, refuse_unsupported
from bigquery_standin.sql.value_generator import Context, ResolveTable

_NO_VALUES: Mapping[str, QueryValue] = {}
_ANONYMOUS_COLUMN = "f{}_"


def to_duckdb(
    tree: exp.Expr,
    resolve_table: ResolveTable,
    parameters: Mapping[str, QueryValue] = _NO_VALUES,
    variables: Mapping[str, QueryValue] = _NO_VALUES,
    *,
    now: datetime | None = None,
    has_columns: bool = False,
) -> str:
    """DuckDB SQL of a query or an expression. A query's columns without a name are named f0_, f1_, … as in BigQuery.

    Raises InvalidQuery for what BigQuery does not accept, NotImplementedConstruct for unsupported constructs.
    `resolve_table` returns the SQL of the relation for a table and its FOR SYSTEM_TIME expression. `parameters` and
    `variables` have lower-case names. `now` is the time of CURRENT_TIMESTAMP, None for this machine's. `has_columns`:
    whether names in an expression may be columns, as in DML.
    """
    has_columns = has_columns or tree.find(exp.From) is not None
    now = now or datetime.now(UTC)
    return _written(tree, Context(resolve_table, parameters, variables, now, has_columns))


def check(tree: exp.Expr) -> None:
    """Raises the errors of `to_duckdb` that depend neither on the tables nor on values of parameters and variables."""

    def checked_relation(_: object, time: exp.Expression | None) -> str:
        if time is not None:
            check(time)
        return "(SELECT 1)"

    _written(tree, Context(checked_relation, None, {}, datetime.now(UTC)))


def _written(tree: exp.Expr, context: Context) -> str:
    refuse_unsupported(tree)
    copied = name_columns(tree) if isinstance(tree, exp.Query) else tree.copy()
    return QueryGenerator(context).generate(copied, copy=False)


def name_columns(tree: exp.Query) -> exp.Query:
    """A copy in which all result columns but those of `*` have a name."""
    copy = tree.copy()
    select = first_select(copy)
    if select is not None:
        nameless = count()
        select.set("expressions", [_named(item, nameless) for item in select.expressions])
    return copy


def _named(item: exp.Expr, nameless: Iterator[int]) -> exp.Expr:
    has_name = item.is_star or item.alias_or_name
    if has_name and not isinstance(item, exp.Literal | exp.Func | exp.Cast | exp.Null):
        return item
    return exp.alias_(item.copy(), _ANONYMOUS_COLUMN.format(next(nameless)), quoted=True)
