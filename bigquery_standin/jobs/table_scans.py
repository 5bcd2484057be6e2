"""Finds the tables that a query references, with the columns that it reads and the filters that prune their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from bigquery_standin.jobs.table_reader import TableReader, is_information_schema_view
from bigquery_standin.sql.table_names import table_name_of
from bigquery_standin.sql.value_generator import FILE_NAME
from bigquery_standin.storage.model import TableId, TableVersion

MAXIMUM_CACHED_QUERIES = 256
# Results of `_qualified_scopes`, by SQL text and by the name and type of each table's columns.
_QUALIFIED_SCOPES: dict[tuple[str, tuple[tuple[str, tuple[tuple[str, str], ...]], ...]], tuple[Scope, ...]] = {}


@dataclass(frozen=True)
class TableScan:
    """One reference to a table in a query.

    `columns`: the columns that are read; None if whole rows are read or if that is not known: then all columns are
    billed. `filters`: those on the partition column.
    """

    table: TableId
    version: TableVersion
    alias: str
    columns: set[str] | None
    filters: list[exp.Expression]


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that the condition joins by AND; only the condition itself if it joins none."""
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def find_table_scans(tree: exp.Expression, reader: TableReader, constants: Collection[str]) -> list[TableScan]:
    """Finds the table references. `constants`: the names of script variables, in lower case.

    In a copy of the tree it renames tables to t0, t1, … so that SQLGlot can look up any spelling of a name.
    """
    renamed = tree.copy()
    tables: dict[str, tuple[TableId, TableVersion]] = {}
    schema: dict[str, dict[str, str]] = {}
    renamed_sources: set[int] = set()
    for scope in traverse_scope(renamed):
        for alias, source in scope.sources.items():
            if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
                continue
            if id(source) in renamed_sources:  # an UNNEST has the tables beside it in its scope, too
                continue
            renamed_sources.add(id(source))
            name = table_name_of(source)
            new_name = f"t{len(schema)}"
            if is_information_schema_view(name):
                schema[new_name] = {column: "STRING" for column in reader.view(name).column_names}
            else:
                system_time = _system_time(source)
                tables[new_name] = reader.version(name, system_time)
                schema[new_name] = {column.name: column.type for column in tables[new_name][1].settings.schema}
                if reader.external(name) is not None:
                    schema[new_name] = {**schema[new_name], FILE_NAME: "STRING"}
            source.set("this", exp.to_identifier(new_name))
            source.set("db", None)
            source.set("catalog", None)
            source.set("version", None)
            if not source.alias:
                source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    if not tables:
        return []
    try:
        scopes = _qualified_scopes(renamed, schema)
    except SqlglotError:
        # SQLGlot cannot analyse the query: count all columns, an upper bound.
        return [TableScan(table, version, name, None, []) for name, (table, version) in tables.items()]
    return [
        _scan(scope, alias, *tables[source.name], constants)
        for scope in scopes
        for alias, source in scope.sources.items()
        if isinstance(source, exp.Table) and source.name in tables
    ]


def _qualified_scopes(tree: exp.Expression, schema: Mapping[str, Mapping[str, str]]) -> tuple[Scope, ...]:
    """The tree's scopes, in which each column has its table as a qualifier.

    They are cached for repeated queries and must not be changed. Threads share them, so what SQLGlot would compute
    later is computed before they are cached.
    """
    key = (tree.sql(dialect="bigquery"), tuple((name, tuple(types.items())) for name, types in schema.items()))
    cached = _QUALIFIED_SCOPES.get(key)
    if cached is not None:
        return cached
    columns: dict[str, object] = {name: dict(types) for name, types in schema.items()}
    qualified = qualify(tree, schema=columns, dialect="bigquery", validate_qualify_columns=False)
    scopes = tuple(traverse_scope(qualified))
    for scope in scopes:
        _ = scope.columns  # SQLGlot computes them when they are first read
    if len(_QUALIFIED_SCOPES) >= MAXIMUM_CACHED_QUERIES:
        _QUALIFIED_SCOPES.clear()
    _QUALIFIED_SCOPES[key] = scopes
    return scopes


def _system_time(source: exp.Table) -> exp.Expression | None:
    version = source.args.get("version")
    return version.expression if isinstance(version, exp.Version) else None


def _scan(scope: object, alias: str, table: TableId, version: TableVersion, constants: Collection[str]) -> TableScan:
    where = scope.expression.args.get("where")  # type: ignore[attr-defined]
    filters = _partition_filters(where, alias, version.settings.partition_column, constants) if where else []
    return TableScan(table, version, alias, _columns_read(scope, alias, version), filters)


def _columns_read(scope: object, alias: str, version: TableVersion) -> set[str] | None:
    """The columns of the table that the scope reads. None if it reads whole rows, or that is not known."""
    row_values = scope.expression.find_all(exp.TableColumn)  # type: ignore[attr-defined]  # sqlglot's Scope is untyped
    if any(row.name.lower() == alias.lower() for row in row_values):  # the alias as a value is the whole row
        return None
    spelling = {column.name.lower(): column.name for column in version.settings.schema}
    columns: set[str] = set()
    for column in scope.columns:  # type: ignore[attr-defined]
        if column.table == alias and column.name.upper() != FILE_NAME:
            name = spelling.get(column.name.lower())
            if name is None:
                return None
            columns.add(name)
    return columns


def _partition_filters(
    where: exp.Expression, alias: str, column: str | None, constants: Collection[str]
) -> list[exp.Expression]:
    """Those of the conditions joined by AND that refer to nothing but the partition column and constants."""
    if column is None:
        return []
    filters: list[exp.Expression] = []
    for condition in conjuncts(where.this):
        inner = condition.unnest()
        columns = [c for c in inner.find_all(exp.Column) if c.table or c.name.lower() not in constants]
        is_constant = not any(inner.find_all(exp.Subquery, exp.Select, exp.Window))
        if (
            isinstance(inner, exp.Expression)
            and is_constant
            and columns
            and all(c.table == alias and c.name.lower() == column.lower() for c in columns)
        ):
            filters.append(inner)
    return filters
