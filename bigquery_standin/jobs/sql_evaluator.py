"""Translates and evaluates the SQL of one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.jobs.scanned_bytes import NAME_COLUMN, ScannedBytes, count_scanned_bytes
from bigquery_standin.jobs.script_state import ScriptState
from bigquery_standin.jobs.table_reader import TableReader
from bigquery_standin.sql.field_types import QueryValue, TableField, quote_identifier, to_duckdb_type
from bigquery_standin.sql.script_parser import parse_script
from bigquery_standin.sql.statements import Query
from bigquery_standin.sql.transpile import to_duckdb
from bigquery_standin.sql.type_parser import table_name_of
from bigquery_standin.storage.segment_store import arrow_type
from bigquery_standin.storage.table_rules import RESERVED_PREFIXES, reserved_name_message


class SqlEvaluator:
    """Translates and evaluates the SQL of one statement. Its current time and the version of each table are fixed.

    `reader`: the tables that the statement reads.
    """

    def __init__(self, state: ScriptState) -> None:
        self.state = state
        self.reader = TableReader(state)
        self.now = state.catalog.clock.now()

    def without_views(self, query: exp.Expression) -> exp.Expression:
        """The query, or a copy of it in which subqueries replace the views that it reads."""
        if not any(self._view_of(source) for source in query.find_all(exp.Table)):
            return query
        expanded = query.copy()
        for source in list(expanded.find_all(exp.Table)):
            view = self._view_of(source)
            if view is not None:
                (tree,) = parse_script(view).statements
                assert isinstance(tree, Query)  # a view has no other text
                alias = source.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table_name_of(source).table))
                source.replace(exp.Subquery(this=self.without_views(tree), alias=alias.copy()))
        return expanded

    def _view_of(self, source: exp.Table) -> str | None:
        """The query of the view that the source names with its dataset; None if it names another table or none."""
        if not isinstance(source.this, exp.Identifier):
            return None
        name = table_name_of(source)
        version = None if name.dataset is None else self.state.catalog.find(self.state.record.table(name))
        return None if version is None else version.settings.view

    def duckdb_sql(self, tree: exp.Expr, *, has_columns: bool = False) -> str:
        """DuckDB SQL of a query, an expression or a part of a query. `has_columns`: see `to_duckdb`."""
        return to_duckdb(
            tree,
            self.reader.resolve,
            self.state.parameters,
            self.state.variables,
            now=self.now,
            has_columns=has_columns,
        )

    def query(self, tree: exp.Expression) -> tuple[tuple[TableField, ...], pa.Table]:
        """The columns and rows of a query. Raises InvalidQuery if a column's name is reserved or occurs twice."""
        columns, rows = self.state.session.run(self.duckdb_sql(tree))
        check_result_names(columns)
        return columns, rows

    def check_assignable(self, sql: str, columns: Sequence[TableField]) -> None:
        """Raises InvalidQuery if BigQuery cannot assign the columns of a query, by position, to as many `columns`."""
        untyped = self.state.session.untyped_positions(sql)
        for position, (source, target) in enumerate(zip(self.state.session.schema(sql), columns, strict=True)):
            if position not in untyped:
                check_assignable(source, target)

    def query_as(self, tree: exp.Expression, columns: tuple[TableField, ...]) -> pa.Table:
        """The query's rows cast to the columns by position, for INSERT."""
        count = len(self.state.session.schema(sql := self.duckdb_sql(tree)))
        if count != len(columns):
            raise InvalidQuery(
                f"Query column count [{count}] differs from the number of columns [{len(columns)}]: "
                f"[{', '.join(column.name for column in columns)}]"
            )
        self.check_assignable(sql, columns)
        names = [f"c{position}" for position in range(len(columns))]
        casts = ", ".join(
            f"CAST({name} AS {to_duckdb_type(target)}) AS {quote_identifier(target.name)}"
            for name, target in zip(names, columns, strict=True)
        )
        _, rows = self.state.session.run(f"SELECT {casts} FROM ({sql}) AS source({', '.join(names)})")
        return rows

    def value(self, expression: exp.Expression) -> QueryValue:
        """The value of an expression, with its type. Its subqueries may read tables."""
        if expression.find(exp.Table) is not None:
            self.scanned_bytes(exp.select(expression))  # checks access to columns
        columns, rows = self.state.session.run(self.duckdb_sql(exp.select(expression)))
        return QueryValue(replace(columns[0], name=""), rows.column(0)[0].as_py())

    def python_value(self, expression: exp.Expression) -> Any:
        """The value of an expression, without its type."""
        return self.value(expression).value

    def scanned_bytes(self, tree: exp.Expression) -> ScannedBytes:
        return count_scanned_bytes(tree, self.reader, self._prune)

    def _prune(self, rows: pa.Table, conditions: Sequence[exp.Expr]) -> set[str]:
        """The NAME_COLUMN values of the rows that fulfil all conditions. Each row describes a partition."""
        registered = self.state.session.register(rows)
        unqualified = [condition.copy().transform(_unqualified) for condition in conditions]
        tree = exp.select(NAME_COLUMN).from_("pruned").where(*unqualified)
        sql = to_duckdb(tree, lambda *_: registered, self.state.parameters, now=self.now)
        _, names = self.state.session.run(sql)
        return set(names.column(0).to_pylist())


def _unqualified(node: exp.Expression) -> exp.Expression:
    return exp.column(node.name) if isinstance(node, exp.Column) else node


def check_result_names(columns: tuple[TableField, ...]) -> None:
    names = [column.name.lower() for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise InvalidQuery(f"Duplicate column names in the result are not supported. Found duplicate(s): {name}")
        if name.startswith(RESERVED_PREFIXES):
            raise InvalidQuery(f"{reserved_name_message(name)}: give the column an alias")


# For each type, the types to which BigQuery converts it without a cast. Source: "Conversion rules", coercion.
_COERCIONS = {
    "INT64": {"NUMERIC", "FLOAT64"},
    "NUMERIC": {"FLOAT64"},
    "STRING": {"DATE", "DATETIME", "TIMESTAMP", "BYTES"},
}


def check_assignable(source: TableField, target: TableField) -> None:
    """Raises InvalidQuery unless BigQuery assigns `source` to `target` without a cast. DuckDB would cast more types."""
    is_same = arrow_type(source) == arrow_type(target)
    is_coerced = "REPEATED" not in (source.mode, target.mode) and target.type in _COERCIONS.get(source.type, set())
    if not (is_same or is_coerced):
        raise InvalidQuery(
            f"Query column of type [{source.sql_type()}] cannot be inserted into column [{target.name}], which has "
            f"type [{target.sql_type()}]: add a CAST"
        )
