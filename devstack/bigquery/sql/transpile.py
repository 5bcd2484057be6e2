"""From a BigQuery query or expression to DuckDB SQL, and DuckDB's errors back to BigQuery's.

The connection that runs the SQL must have its time zone set to UTC. SUM over INT64 is HUGEINT in DuckDB; its result
column is described as INT64 and must be narrowed with a check. Known to differ: `=`, `<` and the like hold NaN for
equal to itself and above all numbers; not every mismatch of types that BigQuery refuses is noticed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from sqlglot import exp

from devstack.bigquery.errors import InvalidQuery
from devstack.bigquery.sql.failures import error_of_duckdb
from devstack.bigquery.sql.functions import AGGREGATES, SCALAR, WINDOW
from devstack.bigquery.sql.types import QueryValue
from devstack.bigquery.sql.writer import (  # noqa: F401  (importing them registers their handlers)
    constructors,
    containers,
    date_calls,
    operators,
    queries,
    sources,
    value_calls,
)
from devstack.bigquery.sql.writer.calls import SPECIAL_HANDLERS
from devstack.bigquery.sql.writer.containers import struct_field_name
from devstack.bigquery.sql.writer.core import ResolveTable, Writer
from devstack.bigquery.sql.writer.queries import first_select

__all__ = ["check", "error_of_duckdb", "name_columns", "supported_functions", "to_duckdb"]
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
    """DuckDB SQL of a query (its nameless columns named f0_, f1_, … as BigQuery does) or of one expression.

    `resolve_table` gives the relation (SQL text) for a table and its FOR SYSTEM_TIME expression. Positional
    parameters are named "1", "2", …. `variables` are looked up without regard to case; a name in
    `shadowing_columns` (columns of the tables read) means the column instead. `now` is what CURRENT_DATE tells.
    `external_tables` are the names, in lower case, of the tables that have the pseudo column _FILE_NAME.
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
    """Raise NotImplementedConstruct or InvalidQuery for what `to_duckdb` would refuse whatever the values are."""
    writer = Writer(lambda name, time: _checked_time(time), {}, {}, datetime.now(UTC), checking=True)
    writer.write(name_columns(tree) if isinstance(tree, exp.Query) else tree)


def _checked_time(time: exp.Expression | None) -> str:
    if time is not None:
        check(time)
    return "(SELECT 1)"


def name_columns(tree: exp.Query) -> exp.Query:
    """A copy whose result columns all have a name."""
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
    """BigQuery names of all functions that are carried out."""
    own_syntax = ("IF", "CAST", "SAFE_CAST", "EXTRACT", "ARRAY")
    return tuple(sorted({*SCALAR, *AGGREGATES, *WINDOW, *SPECIAL_HANDLERS, *own_syntax}))
