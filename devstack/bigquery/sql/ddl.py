"""CREATE, ALTER and DROP for tables and schemas, row access policies in `row_policies.py`.

What of their grammar is not carried out is refused by name."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from devstack.bigquery.errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.column_types import take_columns
from devstack.bigquery.sql.names import take_dataset_name, take_table_name
from devstack.bigquery.sql.options import take_options
from devstack.bigquery.sql.row_policies import take_dropped_row_policies, take_row_policy
from devstack.bigquery.sql.statements import (
    AlterTableSetOptions,
    CreateClone,
    CreateSchema,
    CreateTable,
    DropRowPolicy,
    DropSchema,
    DropTable,
    PartitionSpec,
    Statement,
    TableName,
)
from devstack.bigquery.sql.tokens import Cursor

MAX_CLUSTERING_COLUMNS = 4
CLUSTERING_TYPES = ("BOOL", "DATE", "DATETIME", "INT64", "NUMERIC", "STRING", "TIMESTAMP")
ParseSlice = Callable[[Cursor], exp.Expression]


def take_create(cursor: Cursor, take_query: ParseSlice, take_expression: Callable[..., exp.Expression]) -> Statement:
    """Step over a CREATE statement."""
    cursor.expect("CREATE")
    replace = cursor.take("OR", "REPLACE")
    if cursor.take("SCHEMA"):
        return _create_schema(cursor, replace)
    if cursor.at("OR"):
        raise cursor.unexpected()
    if cursor.take("ROW", "ACCESS", "POLICY"):
        return take_row_policy(cursor, replace, take_expression)
    if not cursor.take("TABLE"):
        prefix = "CREATE OR REPLACE" if replace else "CREATE"
        raise NotImplementedConstruct(f"{prefix} {_kind(cursor)}")
    if cursor.at("FUNCTION"):
        raise NotImplementedConstruct("CREATE TABLE FUNCTION")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if replace and if_not_exists:
        raise InvalidQuery("CREATE TABLE cannot have both OR REPLACE and IF NOT EXISTS")
    name = take_table_name(cursor)
    if cursor.take("CLONE"):
        return _clone(cursor, name, replace, if_not_exists, take_expression)
    for word in ("LIKE", "COPY"):
        if cursor.at(word):
            raise NotImplementedConstruct(f"CREATE TABLE {word}")
    return _table(cursor, name, replace, if_not_exists, take_query)


def _table(cursor: Cursor, name: TableName, replace: bool, if_not_exists: bool, take_query: ParseSlice) -> CreateTable:
    columns = take_columns(cursor) if cursor.at("(") else None
    for words in (("DEFAULT", "COLLATE"), ("WITH", "CONNECTION"), ("WITH", "PARTITION")):
        if cursor.at(*words):
            raise NotImplementedConstruct(f"CREATE TABLE {' '.join(words)}")
    partition = _partition(cursor)
    clustering = _clustering(cursor)
    options = take_options(cursor, "table")
    query = take_query(cursor) if cursor.take("AS") else None
    if query is None and columns is None:
        raise cursor.unexpected("Expected a column list, AS query or CLONE")
    table = CreateTable(name, columns, replace, if_not_exists, partition, clustering, options, query)
    _check_layout(table)
    return table


def _check_layout(table: CreateTable) -> None:
    if table.columns is None:
        return
    types = {column.name.lower(): (column.type_name, column.mode) for column in table.columns}
    for column in (*((table.partition_by.column,) if table.partition_by else ()), *table.cluster_by):
        if column.lower() not in types:
            raise InvalidQuery(f"Unrecognized name: {column}")
    _check_clustering(table, types)
    if table.partition_by is not None and types[table.partition_by.column.lower()] not in (
        ("DATE", "NULLABLE"),
        ("DATE", "REQUIRED"),
    ):
        found = types[table.partition_by.column.lower()][0]
        raise NotImplementedConstruct(f"PARTITION BY a column of type {found}")


def _check_clustering(table: CreateTable, types: dict[str, tuple[str, str]]) -> None:
    for column in table.cluster_by:
        type_name, mode = types[column.lower()]
        if mode == "REPEATED" or type_name not in CLUSTERING_TYPES:
            found = f"ARRAY<{type_name}>" if mode == "REPEATED" else type_name
            raise InvalidQuery(f"CLUSTER BY column {column} has type [{found}], expected one of {CLUSTERING_TYPES}")


def _partition(cursor: Cursor) -> PartitionSpec | None:
    if not cursor.take("PARTITION", "BY"):
        return None
    if cursor.word(1) in ("(", "."):
        raise NotImplementedConstruct(f"PARTITION BY {cursor.word()}(…)")
    column = cursor.identifier()
    if cursor.at(","):
        raise InvalidQuery("PARTITION BY expects one expression, found several")
    return PartitionSpec(column)


def _clustering(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.take("CLUSTER", "BY"):
        return ()
    columns = [cursor.identifier()]
    while cursor.take(","):
        columns.append(cursor.identifier())
    if cursor.at(".") or cursor.at("("):
        raise NotImplementedConstruct("CLUSTER BY anything but top-level columns")
    if len(columns) > MAX_CLUSTERING_COLUMNS:
        raise InvalidQuery(f"CLUSTER BY has [{len(columns)}] columns, expected at most [{MAX_CLUSTERING_COLUMNS}]")
    if len({column.lower() for column in columns}) != len(columns):
        raise InvalidQuery(f"CLUSTER BY names a column twice: {', '.join(columns)}")
    return tuple(columns)


def _clone(
    cursor: Cursor,
    name: TableName,
    replace: bool,
    if_not_exists: bool,
    take_expression: Callable[..., exp.Expression],
) -> CreateClone:
    source = take_table_name(cursor)
    system_time = None
    if cursor.take("FOR", "SYSTEM_TIME", "AS", "OF") or cursor.take("FOR", "SYSTEM", "TIME", "AS", "OF"):
        system_time = take_expression(cursor, "OPTIONS")
    return CreateClone(name, source, replace, if_not_exists, system_time, take_options(cursor, "table"))


def _create_schema(cursor: Cursor, replace: bool) -> CreateSchema:
    if replace:
        raise NotImplementedConstruct("CREATE OR REPLACE SCHEMA")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    project, dataset = take_dataset_name(cursor)
    if cursor.at("DEFAULT", "COLLATE"):
        raise NotImplementedConstruct("CREATE SCHEMA DEFAULT COLLATE")
    return CreateSchema(dataset, if_not_exists, take_options(cursor, "schema"), project)


def take_alter(cursor: Cursor) -> AlterTableSetOptions:
    """Step over ALTER TABLE … SET OPTIONS."""
    cursor.expect("ALTER")
    if not cursor.take("TABLE"):
        raise NotImplementedConstruct(f"ALTER {_kind(cursor)}")
    if_exists = cursor.take("IF", "EXISTS")
    name = take_table_name(cursor)
    if not cursor.at("SET", "OPTIONS"):
        action = " ".join(word for ahead in range(2) if (word := cursor.word(ahead)).isalpha())
        if not action or (cursor.at("SET") and cursor.word(1) != "DEFAULT"):
            raise cursor.unexpected("Expected keyword SET OPTIONS")
        raise NotImplementedConstruct(f"ALTER TABLE {action}")
    cursor.expect("SET")
    return AlterTableSetOptions(name, take_options(cursor, "table"), if_exists)


def take_drop(cursor: Cursor) -> DropTable | DropSchema | DropRowPolicy:
    """Step over DROP TABLE, DROP SCHEMA, DROP ROW ACCESS POLICY or DROP ALL ROW ACCESS POLICIES."""
    cursor.expect("DROP")
    if cursor.at("ROW", "ACCESS") or cursor.at("ALL", "ROW", "ACCESS"):
        return take_dropped_row_policies(cursor)
    if cursor.take("SCHEMA"):
        if_exists = cursor.take("IF", "EXISTS")
        project, dataset = take_dataset_name(cursor)
        cascade = cursor.take("CASCADE")
        if not cascade:
            cursor.take("RESTRICT")
        return DropSchema(dataset, if_exists, cascade, project)
    if not cursor.take("TABLE") or cursor.at("FUNCTION"):
        raise NotImplementedConstruct(f"DROP {_kind(cursor)}")
    if_exists = cursor.take("IF", "EXISTS")
    return DropTable(take_table_name(cursor), if_exists)


_TWO_WORD_KINDS = ("TEMP", "TEMPORARY", "EXTERNAL", "SNAPSHOT", "MATERIALIZED", "ROW", "SEARCH", "VECTOR", "AGGREGATE")


def _kind(cursor: Cursor) -> str:
    """VIEW, SNAPSHOT TABLE, …: what the statement would make or change."""
    first = cursor.word()
    if not first.isalpha():
        raise cursor.unexpected()
    return f"{first} {cursor.word(1)}" if first in _TWO_WORD_KINDS and cursor.word(1).isalpha() else first
