"""Parses CREATE, ALTER, DROP, UNDROP and CALL statements. Unsupported clauses are refused by name."""

from __future__ import annotations

from collections.abc import Callable

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.checked_parse import parse_expression, parse_query
from bigquery_standin.sql.ddl_options import parse_options
from bigquery_standin.sql.field_types import CLUSTERING_TYPES, MAXIMUM_CLUSTERING_COLUMNS
from bigquery_standin.sql.statements import (
    AlterColumn,
    AlterTableSetOptions,
    Call,
    CreateClone,
    CreateProcedure,
    CreateRowPolicy,
    CreateTable,
    DropProcedure,
    DropRowPolicies,
    DropTable,
    ProcedureParameter,
    Statement,
    TableName,
    UndropSchema,
)
from bigquery_standin.sql.table_names import parse_connection_name, parse_dataset_name, parse_table_name
from bigquery_standin.sql.tokens import TokenCursor
from bigquery_standin.sql.type_parser import parse_columns, parse_type, parse_type_without_parameters


def parse_create(cursor: TokenCursor) -> Statement:
    """Parses a CREATE statement."""
    cursor.expect("CREATE")
    replace = cursor.accept("OR", "REPLACE")
    for words, parse in _OBJECTS_OTHER_THAN_TABLES.items():
        if cursor.accept(*words):
            return parse(cursor, replace)
    if cursor.at("OR"):
        raise cursor.unexpected()
    if not cursor.accept("TABLE"):
        prefix = "CREATE OR REPLACE" if replace else "CREATE"
        raise NotImplementedConstruct(f"{prefix} {_kind(cursor)}")
    if cursor.at("FUNCTION"):
        raise NotImplementedConstruct("CREATE TABLE FUNCTION")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if replace and if_not_exists:
        raise InvalidQuery("CREATE TABLE cannot have both OR REPLACE and IF NOT EXISTS")
    name = parse_table_name(cursor)
    if cursor.accept("CLONE"):
        return _create_clone(cursor, name, replace, if_not_exists)
    for word in ("LIKE", "COPY"):
        if cursor.at(word):
            raise NotImplementedConstruct(f"CREATE TABLE {word}")
    return _create_table(cursor, name, replace, if_not_exists)


def _create_table(cursor: TokenCursor, name: TableName, replace: bool, if_not_exists: bool) -> CreateTable:
    columns, primary_key = parse_columns(cursor) if cursor.at("(") else (None, ())
    for words in (("DEFAULT", "COLLATE"), ("WITH", "CONNECTION"), ("WITH", "PARTITION")):
        if cursor.at(*words):
            raise NotImplementedConstruct(f"CREATE TABLE {' '.join(words)}")
    partition = _partition_column(cursor)
    clustering = _clustering_columns(cursor)
    options = parse_options(cursor, "table")
    query = parse_query(cursor) if cursor.accept("AS") else None
    if query is None and columns is None:
        raise cursor.unexpected("Expected a column list, AS query or CLONE")
    table = CreateTable(name, columns, replace, if_not_exists, partition, clustering, options, query, primary_key)
    _check_layout(table)
    return table


def _create_view(cursor: TokenCursor, replace: bool) -> CreateTable:
    """Parses what follows CREATE [OR REPLACE] VIEW."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if replace and if_not_exists:
        raise InvalidQuery("CREATE VIEW cannot have both OR REPLACE and IF NOT EXISTS")
    name = parse_table_name(cursor)
    if cursor.at("("):
        raise NotImplementedConstruct("CREATE VIEW with a column list")
    options = parse_options(cursor, "table")
    cursor.expect("AS")
    first = cursor.position
    query = parse_query(cursor)
    text = cursor.text[cursor.tokens[first].start : cursor.tokens[cursor.position - 1].end + 1]
    return CreateTable(name, None, replace, if_not_exists, options=options, query=query, view=text)


def _check_layout(table: CreateTable) -> None:
    if table.columns is None:
        return
    types = {column.name.lower(): (column.type, column.mode) for column in table.columns}
    for column in (*((table.partition_by,) if table.partition_by else ()), *table.cluster_by):
        if column.lower() not in types:
            raise InvalidQuery(f"Unrecognized name: {column}")
    _check_clustering(table, types)
    if table.partition_by is not None and types[table.partition_by.lower()] not in (
        ("DATE", "NULLABLE"),
        ("DATE", "REQUIRED"),
    ):
        type_name = types[table.partition_by.lower()][0]
        raise NotImplementedConstruct(f"PARTITION BY a column of type {type_name}")


def _check_clustering(table: CreateTable, types: dict[str, tuple[str, str]]) -> None:
    for column in table.cluster_by:
        type_name, mode = types[column.lower()]
        if mode == "REPEATED" or type_name not in CLUSTERING_TYPES:
            written_type = f"ARRAY<{type_name}>" if mode == "REPEATED" else type_name
            raise InvalidQuery(
                f"CLUSTER BY column {column} has type [{written_type}], expected one of {CLUSTERING_TYPES}"
            )


def _partition_column(cursor: TokenCursor) -> str | None:
    if not cursor.accept("PARTITION", "BY"):
        return None
    if cursor.word(1) in ("(", "."):
        raise NotImplementedConstruct(f"PARTITION BY {cursor.word()}(…)")
    column = cursor.identifier()
    if cursor.at(","):
        raise InvalidQuery("PARTITION BY expects one expression, found several")
    return column


def _clustering_columns(cursor: TokenCursor) -> tuple[str, ...]:
    if not cursor.accept("CLUSTER", "BY"):
        return ()
    columns = cursor.comma_separated(cursor.identifier)
    if cursor.at(".") or cursor.at("("):
        raise NotImplementedConstruct("CLUSTER BY anything but top-level columns")
    if len(columns) > MAXIMUM_CLUSTERING_COLUMNS:
        raise InvalidQuery(f"CLUSTER BY has [{len(columns)}] columns, expected at most [{MAXIMUM_CLUSTERING_COLUMNS}]")
    if len({column.lower() for column in columns}) != len(columns):
        raise InvalidQuery(f"CLUSTER BY names a column twice: {', '.join(columns)}")
    return tuple(columns)


def _create_clone(cursor: TokenCursor, name: TableName, replace: bool, if_not_exists: bool) -> CreateClone:
    source = parse_table_name(cursor)
    system_time = None
    if cursor.accept("FOR", "SYSTEM_TIME", "AS", "OF") or cursor.accept("FOR", "SYSTEM", "TIME", "AS", "OF"):
        system_time = parse_expression(cursor, "OPTIONS")
    return CreateClone(name, source, replace, if_not_exists, system_time, parse_options(cursor, "table"))


def parse_alter(cursor: TokenCursor) -> AlterTableSetOptions | AlterColumn:
    """Parses ALTER TABLE with SET OPTIONS or one ALTER COLUMN."""
    cursor.expect("ALTER")
    if not cursor.accept("TABLE"):
        raise NotImplementedConstruct(f"ALTER {_kind(cursor)}")
    if_exists = cursor.accept("IF", "EXISTS")
    name = parse_table_name(cursor)
    if cursor.at("ALTER", "COLUMN"):
        return _alter_column(cursor, name, if_exists)
    if not cursor.at("SET", "OPTIONS"):
        action = " ".join(word for ahead in range(2) if (word := cursor.word(ahead)).isalpha())
        if not action or (cursor.at("SET") and cursor.word(1) != "DEFAULT"):
            raise cursor.unexpected("Expected keyword SET OPTIONS")
        raise NotImplementedConstruct(f"ALTER TABLE {action}")
    cursor.expect("SET")
    return AlterTableSetOptions(name, parse_options(cursor, "table"), if_exists)


def _alter_column(cursor: TokenCursor, table: TableName, if_exists: bool) -> AlterColumn:
    cursor.expect("ALTER", "COLUMN")
    if_column_exists = cursor.accept("IF", "EXISTS")
    column, new_type = cursor.identifier(), None
    if cursor.accept("SET", "DATA", "TYPE"):
        new_type = parse_type(cursor, column)
    elif not cursor.accept("DROP", "NOT", "NULL"):
        raise NotImplementedConstruct(f"ALTER COLUMN {cursor.word()} {cursor.word(1)}")
    return AlterColumn(table, column, new_type, if_exists, if_column_exists)


def parse_drop(cursor: TokenCursor) -> DropTable | DropRowPolicies | DropProcedure:
    """Parses DROP TABLE, DROP PROCEDURE and DROP ALL ROW ACCESS POLICIES."""
    cursor.expect("DROP")
    if cursor.accept("ALL", "ROW", "ACCESS", "POLICIES"):
        cursor.expect("ON")
        return DropRowPolicies(parse_table_name(cursor))
    if cursor.accept("PROCEDURE"):
        return parse_drop_procedure(cursor)
    if cursor.at("TABLE", "FUNCTION") or not cursor.accept("TABLE"):
        raise NotImplementedConstruct(f"DROP {_kind(cursor)}")
    if_exists = cursor.accept("IF", "EXISTS")
    return DropTable(parse_table_name(cursor), if_exists)


def parse_undrop(cursor: TokenCursor) -> UndropSchema:
    cursor.expect("UNDROP")
    cursor.expect("SCHEMA")
    if cursor.at("IF"):
        raise NotImplementedConstruct("UNDROP SCHEMA IF NOT EXISTS")
    project, dataset = parse_dataset_name(cursor)
    return UndropSchema(dataset, parse_options(cursor, "schema"), project)


def _create_row_policy(cursor: TokenCursor, replace: bool) -> CreateRowPolicy:
    """Parses what follows CREATE [OR REPLACE] ROW ACCESS POLICY."""
    if replace or cursor.at("IF"):
        raise NotImplementedConstruct("CREATE ROW ACCESS POLICY with OR REPLACE or IF NOT EXISTS")
    name = cursor.identifier()
    cursor.expect("ON")
    table = parse_table_name(cursor)
    grantees: list[str] = []
    if cursor.accept("GRANT", "TO"):
        cursor.expect("(")
        grantees = cursor.comma_separated(cursor.string)
        cursor.expect(")")
    cursor.expect("FILTER", "USING")
    cursor.expect("(")
    first = cursor.position
    predicate = parse_expression(cursor, ")")
    text = cursor.text[cursor.tokens[first].start : cursor.tokens[cursor.position - 1].end + 1]
    cursor.expect(")")
    return CreateRowPolicy(name, table, tuple(grantees), predicate, text)


# The first words of kinds that two words name, such as SNAPSHOT TABLE.
_TWO_WORD_KINDS = ("TEMP", "TEMPORARY", "EXTERNAL", "SNAPSHOT", "MATERIALIZED", "ROW", "SEARCH", "VECTOR", "AGGREGATE")


def _kind(cursor: TokenCursor) -> str:
    """The kind of object that the statement is about: VIEW, SNAPSHOT TABLE, …"""
    first = cursor.word()
    if not first.isalpha():
        raise cursor.unexpected()
    return f"{first} {cursor.word(1)}" if first in _TWO_WORD_KINDS and cursor.word(1).isalpha() else first


def parse_create_procedure(cursor: TokenCursor, replace: bool) -> CreateProcedure:
    """Parses what follows CREATE [OR REPLACE] PROCEDURE."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if replace and if_not_exists:
        raise InvalidQuery("CREATE PROCEDURE cannot have both OR REPLACE and IF NOT EXISTS")
    name = parse_table_name(cursor)
    parameters = _parameters(cursor)
    if cursor.at("EXTERNAL", "SECURITY"):
        raise NotImplementedConstruct("CREATE PROCEDURE EXTERNAL SECURITY")
    if cursor.at("BEGIN") or cursor.at("OPTIONS"):
        raise NotImplementedConstruct("CREATE PROCEDURE in SQL")
    cursor.expect("WITH", "CONNECTION")
    connection = parse_connection_name(cursor)
    options = parse_options(cursor, "procedure")
    cursor.expect("LANGUAGE")
    language = cursor.identifier().upper()
    if language != "PYTHON":
        raise NotImplementedConstruct(f"CREATE PROCEDURE LANGUAGE {language}")
    code = cursor.string() if cursor.accept("AS") else None
    return CreateProcedure(name, parameters, connection, options, code, replace, if_not_exists)


def parse_drop_procedure(cursor: TokenCursor) -> DropProcedure:
    """Parses what follows DROP PROCEDURE."""
    if_exists = cursor.accept("IF", "EXISTS")
    return DropProcedure(parse_table_name(cursor), if_exists)


def parse_call(cursor: TokenCursor) -> Call:
    cursor.expect("CALL")
    name = parse_table_name(cursor)
    cursor.expect("(")
    arguments = () if cursor.at(")") else tuple(cursor.comma_separated(lambda: parse_expression(cursor, ",", ")")))
    cursor.expect(")")
    return Call(name, arguments)


def _parameters(cursor: TokenCursor) -> tuple[ProcedureParameter, ...]:
    cursor.expect("(")
    parameters = () if cursor.at(")") else tuple(cursor.comma_separated(lambda: _parameter(cursor)))
    cursor.expect(")")
    names = [parameter.name.lower() for parameter in parameters]
    if len(set(names)) != len(names):
        raise InvalidQuery(f"CREATE PROCEDURE names an argument twice: {', '.join(names)}")
    return parameters


def _parameter(cursor: TokenCursor) -> ProcedureParameter:
    for mode in ("OUT", "INOUT"):
        if cursor.at(mode) and cursor.word(1) not in (",", ")"):
            raise NotImplementedConstruct(f"procedure argument mode {mode}")
    cursor.accept("IN")
    return ProcedureParameter(cursor.identifier(), parse_type_without_parameters(cursor, "an argument").sql_type())


_OBJECTS_OTHER_THAN_TABLES: dict[tuple[str, ...], Callable[[TokenCursor, bool], Statement]] = {
    ("VIEW",): _create_view,
    ("ROW", "ACCESS", "POLICY"): _create_row_policy,
    ("PROCEDURE",): parse_create_procedure,
}
