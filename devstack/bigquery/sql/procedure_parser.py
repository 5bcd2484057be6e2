"""Parses CREATE PROCEDURE of stored procedures for Apache Spark in Python, DROP PROCEDURE and CALL."""

from __future__ import annotations

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.checked_parse import parse_expression
from devstack.bigquery.sql.ddl_options import parse_options
from devstack.bigquery.sql.statements import Call, CreateProcedure, DropProcedure, ProcedureParameter
from devstack.bigquery.sql.table_names import parse_connection_name, parse_table_name
from devstack.bigquery.sql.tokens import TokenCursor
from devstack.bigquery.sql.type_parser import parse_type_without_parameters


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
    return ProcedureParameter(cursor.identifier(), parse_type_without_parameters(cursor, "an argument"))
