"""What the statements of one script share: variables, parameters, name defaults, and the way to evaluate SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from sqlglot import exp

from devstack.bigquery.errors import InvalidQuery
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.external_tables import ExternalTables
from devstack.bigquery.jobs.query_parameters import Parameters
from devstack.bigquery.jobs.scanned_bytes import ScannedBytes, measure
from devstack.bigquery.jobs.table_reader import NameDefaults, TableReader, is_view
from devstack.bigquery.sql.references import referenced_tables
from devstack.bigquery.sql.statements import TableName
from devstack.bigquery.sql.transpile import to_duckdb
from devstack.bigquery.sql.types import QueryValue, TableField, quoted, to_duckdb_type
from devstack.bigquery.storage.arrow_schema import arrow_type
from devstack.bigquery.storage.catalog import Catalog


@dataclass
class ScriptState:
    catalog: Catalog
    session: DuckDbSession
    defaults: NameDefaults
    parameters: Parameters
    variables: dict[str, QueryValue] = field(default_factory=dict)
    externals: ExternalTables | None = None

    @contextmanager
    def reading(self) -> Iterator[StatementSql]:
        """One statement: one current time, each table at one version."""
        with TableReader(self.catalog, self.session, self.defaults, self._constant, self.externals) as reader:
            yield StatementSql(self, reader, self.catalog.clock.now())

    def _constant(self, expression: exp.Expression) -> Any:
        """An expression that reads no table, such as FOR SYSTEM_TIME AS OF's."""

        def refuse(name: TableName, _: exp.Expression | None) -> str:
            raise InvalidQuery(f"Table [{name.table}] cannot be read inside a constant expression")

        sql = to_duckdb(exp.select(expression), refuse, self.parameters, self.variables, now=self.catalog.clock.now())
        _, rows = self.session.run(sql)
        return rows.column(0)[0].as_py()


@dataclass(frozen=True)
class StatementSql:
    state: ScriptState
    reader: TableReader
    now: datetime

    def duckdb(self, tree: exp.Expr, columns: Collection[str] = ()) -> str:
        """DuckDB SQL of a query, an expression or a part of a query. `columns` are names that mean a column wherever
        a variable has that name too, beside those of the tables that the tree itself reads.
        """
        return to_duckdb(
            tree,
            self.reader.resolve,
            self.state.parameters,
            self.state.variables,
            now=self.now,
            shadowing_columns={*columns, *self.columns_read(tree)} if self.state.variables else (),
            external_tables=self.state.externals.with_file_name if self.state.externals else (),
        )

    def columns_read(self, tree: exp.Expr) -> set[str]:
        """A column wins over a variable of its name."""
        columns: set[str] = set()
        for name, system_time in referenced_tables(tree):
            if is_view(name):
                columns |= set(self.reader.view(name).column_names)
            else:
                _, version = self.reader.version(name, system_time)
                columns |= {column.name for column in version.settings.schema}
        return columns

    def query(self, tree: exp.Expression) -> tuple[tuple[TableField, ...], pa.Table]:
        columns, rows = self.state.session.run(self.duckdb(tree))
        check_result_names(columns)
        return columns, rows

    def query_as(self, tree: exp.Expression, columns: tuple[TableField, ...]) -> pa.Table:
        """The query's rows cast to the columns by position, as INSERT and CREATE TABLE (…) AS do."""
        found = self.state.session.schema(sql := self.duckdb(tree))
        if len(found) != len(columns):
            raise InvalidQuery(
                f"Query column count [{len(found)}] differs from the number of columns [{len(columns)}]: "
                f"[{', '.join(column.name for column in columns)}]"
            )
        untyped = self.state.session.untyped(sql)
        for position, (source, target) in enumerate(zip(found, columns, strict=True)):
            if position not in untyped:
                check_assignable(source, target)
        names = [f"c{position}" for position in range(len(found))]
        casts = ", ".join(
            f"CAST({name} AS {to_duckdb_type(target)}) AS {quoted(target.name)}"
            for name, target in zip(names, columns, strict=True)
        )
        _, rows = self.state.session.run(f"SELECT {casts} FROM ({sql}) AS source({', '.join(names)})")
        return rows

    def value(self, expression: exp.Expression) -> QueryValue:
        """A single value with its type; a scalar subquery may read tables."""
        if expression.find(exp.Table) is not None:
            self.measure(exp.select(expression))  # refuses columns that a policy protects
        columns, rows = self.state.session.run(self.duckdb(exp.select(expression)))
        return QueryValue(replace(columns[0], name=""), rows.column(0)[0].as_py())

    def measure(self, tree: exp.Expression) -> ScannedBytes:
        return measure(tree, self.reader, self._prune, self.state.variables)

    def _prune(self, days: pa.Table, column: str, conditions: list[exp.Expression]) -> set[str]:
        registered = self.state.session.register(days)
        plain = [condition.copy().transform(_unqualified) for condition in conditions]
        tree = exp.select("partition_id").from_("partition_days").where(*plain)
        sql = to_duckdb(tree, lambda *_: registered, self.state.parameters, self.state.variables, now=self.now)
        _, rows = self.state.session.run(sql)
        return set(rows.column(0).to_pylist())


def _unqualified(node: exp.Expression) -> exp.Expression:
    return exp.column(node.name) if isinstance(node, exp.Column) else node


# Source: "Specifying a schema", column names.
RESERVED_PREFIXES = ("_partition", "_table_", "_file_", "_row_timestamp", "__root__", "_colidentifier")


def check_result_names(columns: tuple[TableField, ...]) -> None:
    names = [column.name.lower() for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise InvalidQuery(f"Duplicate column names in the result are not supported. Found duplicate(s): {name}")
        if name.startswith(RESERVED_PREFIXES):
            raise InvalidQuery(
                f'Invalid field name "{name}". Field names are not allowed to start with the (case-insensitive) '
                f"prefixes {', '.join(prefix.upper() for prefix in RESERVED_PREFIXES)}: give the column an alias"
            )


# What BigQuery assigns to a column of another type without a cast. Source: "Conversion rules", coercion.
_COERCIONS = {
    "INT64": {"NUMERIC", "FLOAT64"},
    "NUMERIC": {"FLOAT64"},
    "STRING": {"DATE", "DATETIME", "TIME", "TIMESTAMP", "BYTES"},
}


def check_assignable(source: TableField, target: TableField) -> None:
    """Literals of type STRING also become dates; DuckDB's own, laxer casts are not BigQuery's."""
    same = arrow_type(source) == arrow_type(target)
    coerced = source.mode == target.mode == "NULLABLE" and target.type in _COERCIONS.get(source.type, set())
    required = target.mode == "REQUIRED" and (
        source.type == target.type or target.type in _COERCIONS.get(source.type, set())
    )
    if not (same or coerced or required):
        raise InvalidQuery(
            f"Query column of type [{source.sql_type()}] cannot be inserted into column [{target.name}], which has "
            f"type [{target.sql_type()}]: add a CAST"
        )
