"""Translates a BigQuery query or expression to DuckDB SQL.

The connection that runs the SQL must have the time zone UTC. SUM over INT64 is HUGEINT in DuckDB, so the caller must
check that its result fits INT64, and convert it. Known differences from BigQuery: comparisons treat NaN as equal to
itself and greater than all numbers; operators on FLOAT64 give infinity where BigQuery reports an overflow; products of
NUMERIC overflow from 1e20 on, not from 1e29; a cast of a STRUCT matches fields by name, unless the STRUCT is written in
the cast as `STRUCT(…)` or `(a, b)`; and some type errors are not found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.sql.field_types import QueryValue
from bigquery_standin.sql.functions import AGGREGATES, SCALAR, VARIADIC, WINDOW
from bigquery_standin.sql.runtime_errors import translate_duckdb_error
from bigquery_standin.sql.writer import (  # noqa: F401  (importing them registers their handlers)
    casts,
    columns_and_structs,
    date_functions,
    from_clause,
    operators,
    select_queries,
    value_functions,
)
from bigquery_standin.sql.writer.columns_and_structs import struct_field_name
from bigquery_standin.sql.writer.function_calls import SPECIAL_HANDLERS
from bigquery_standin.sql.writer.node_writer import ResolveTable, Writer
from bigquery_standin.sql.writer.select_queries import first_select

__all__ = ["check", "name_columns", "supported_functions", "to_duckdb", "translate_duckdb_error"]
_NO_VALUES: Mapping[str, QueryValue] = {}
_ANONYMOUS_COLUMN = "f{}_"


def to_duckdb(
    tree: exp.Expr,
    resolve_table: ResolveTable,
    parameters: Mapping[str, QueryValue] = _NO_VALUES,
    variables: Mapping[str, QueryValue] = _NO_VALUES,
    *,
    now: datetime | None = None,
    shadowing_columns: Collection[str] = (),
    external_tables: Collection[str] = (),
) -> str:
    """DuckDB SQL of a query or an expression. A query's columns without a name are named f0_, f1_, … as in BigQuery.

    Raises InvalidQuery for what BigQuery does not accept, NotImplementedConstruct for unsupported constructs.
    `resolve_table` returns the SQL of the relation for a table and its FOR SYSTEM_TIME expression. `parameters` have
    lower-case names; positional ones are named "1", "2", …. Names of `variables` are case-insensitive; a name in
    `shadowing_columns` (columns of the tables that are read) refers to the column instead. `now` is the time of
    CURRENT_TIMESTAMP, None for this machine's. `external_tables` are the lower-case names of the tables with the pseudo
    column _FILE_NAME.
    """
    named = name_columns(tree) if isinstance(tree, exp.Query) else tree
    lowered = {name.lower(): value for name, value in variables.items()}
    shadowing = {name.lower() for name in shadowing_columns}
    writer = Writer(
        resolve_table,
        parameters,
        lowered,
        now or datetime.now(UTC),
        shadowing_columns=shadowing,
        external_tables=external_tables,
    )
    return writer.write(named)


def check(tree: exp.Expr) -> None:
    """Raises the errors of `to_duckdb` that depend neither on the tables nor on values of parameters and variables."""
    writer = Writer(lambda name, time: _checked_relation(time), {}, {}, datetime.now(UTC), check_only=True)
    writer.write(name_columns(tree) if isinstance(tree, exp.Query) else tree)


def _checked_relation(time: exp.Expression | None) -> str:
    """A relation in place of a table. Checks the table's FOR SYSTEM_TIME expression `time`; None without one."""
    if time is not None:
        check(time)
    return "(SELECT 1)"


def name_columns(tree: exp.Query) -> exp.Query:
    """A copy in which all result columns but those of `*` have a name. Raises InvalidQuery if two names are equal."""
    copy = tree.copy()
    select = first_select(copy)
    if select is not None:
        _name_projections(select)
    return copy


def _name_projections(select: exp.Select) -> None:
    named, nameless, seen = [], 0, set()
    for item in select.expressions:
        if (not item.is_star and not item.alias_or_name) or isinstance(
            item, exp.Literal | exp.Func | exp.Cast | exp.Null
        ):
            item = exp.alias_(item.copy(), _ANONYMOUS_COLUMN.format(nameless), quoted=True)
            nameless += 1
        name = "" if item.is_star else struct_field_name(item).lower()
        if name in seen and name:
            raise InvalidQuery(
                "Duplicate column names in the result are not supported when a destination table is present. "
                f"Found duplicate(s): {name}"
            )
        seen.add(name)
        named.append(item)
    select.set("expressions", named)


def supported_functions() -> tuple[str, ...]:
    """BigQuery names of all supported functions."""
    own_syntax = ("IF", "CAST", "SAFE_CAST", "EXTRACT", "ARRAY")
    return tuple(sorted({*SCALAR, *VARIADIC, *AGGREGATES, *WINDOW, *SPECIAL_HANDLERS, *own_syntax}))
