"""Parses UPDATE, DELETE, MERGE and TRUNCATE TABLE. Unsupported clauses are refused by name."""

from __future__ import annotations

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.checked_parse import parse_checked, parse_expression
from bigquery_standin.sql.statements import (
    MATCHED,
    NOT_MATCHED_BY_SOURCE,
    NOT_MATCHED_BY_TARGET,
    Assignment,
    Delete,
    Merge,
    MergeClause,
    MergeDelete,
    MergeInsert,
    MergeUpdate,
    TableName,
    TruncateTable,
    Update,
)
from bigquery_standin.sql.table_names import parse_table_name
from bigquery_standin.sql.tokens import TokenCursor, tokenize

_NESTED = ("INSERT", "UPDATE", "DELETE")


def parse_update(cursor: TokenCursor) -> Update:
    cursor.expect("UPDATE")
    table, alias = _target(cursor, ("SET",))
    cursor.expect("SET")
    assignments = _assignments(cursor, alias, ("FROM", "WHERE"))
    if cursor.at("FROM"):
        raise NotImplementedConstruct("UPDATE with FROM: use MERGE")
    if not cursor.accept("WHERE"):
        raise _missing_where_error(cursor, "UPDATE")
    return Update(table, alias, assignments, parse_expression(cursor))


def parse_delete(cursor: TokenCursor) -> Delete:
    cursor.expect("DELETE")
    cursor.accept("FROM")
    table, alias = _target(cursor, ("WHERE",))
    if not cursor.accept("WHERE"):
        raise _missing_where_error(cursor, "DELETE")
    return Delete(table, alias, parse_expression(cursor))


def parse_truncate(cursor: TokenCursor) -> TruncateTable:
    cursor.expect("TRUNCATE", "TABLE")
    return TruncateTable(parse_table_name(cursor))


def parse_merge(cursor: TokenCursor) -> Merge:
    cursor.expect("MERGE")
    cursor.accept("INTO")
    table, alias = _target(cursor, ("USING",))
    cursor.expect("USING")
    source = _source(cursor)
    cursor.expect("ON")
    condition = parse_expression(cursor, "WHEN")
    clauses = [_clause(cursor, alias)]
    while cursor.at("WHEN"):
        clauses.append(_clause(cursor, alias))
    return Merge(table, alias, source, condition, tuple(clauses))


def _target(cursor: TokenCursor, stops: tuple[str, ...]) -> tuple[TableName, str]:
    """The table that the statement changes, and its alias; without an alias its name.

    `stops`: the keywords that can follow the table, which are therefore no alias.
    """
    name = parse_table_name(cursor)
    has_alias = cursor.accept("AS") or not (cursor.at_end() or cursor.at(";") or cursor.word() in stops)
    return name, cursor.identifier() if has_alias else name.table


def _missing_where_error(cursor: TokenCursor, statement: str) -> InvalidQuery:
    if cursor.at_end() or cursor.at(";"):
        return InvalidQuery(f"{statement} must have a WHERE clause: WHERE TRUE means all rows")
    return cursor.unexpected("Expected keyword WHERE")


def _source(cursor: TokenCursor) -> exp.Select:
    """The table or subquery after USING, parsed as `SELECT * FROM …`."""
    tokens = cursor.take_until("ON")
    if not tokens:
        raise cursor.unexpected()
    tree = parse_checked(cursor, [*tokenize("SELECT * FROM"), *tokens])
    plain = {"kind", "expressions", "from_"}
    has_more = any(value for part, value in tree.args.items() if part not in plain)
    is_plain = isinstance(tree, exp.Select) and not has_more
    if not is_plain or not isinstance(tree.args["from_"].this, exp.Table | exp.Subquery):
        raise InvalidQuery("Syntax error: the source of MERGE is one table or subquery")
    assert isinstance(tree, exp.Select)
    return tree


def _assignments(cursor: TokenCursor, alias: str, stops: tuple[str, ...]) -> tuple[Assignment, ...]:
    assignments = cursor.comma_separated(lambda: _assignment(cursor, alias, stops))
    seen: set[str] = set()
    for item in assignments:
        if item.column.lower() in seen:
            raise InvalidQuery(f"Update item {item.column} overlaps with another one: set each column once")
        seen.add(item.column.lower())
    return tuple(assignments)


def _assignment(cursor: TokenCursor, alias: str, stops: tuple[str, ...]) -> Assignment:
    if cursor.at("(") and cursor.word(1) in _NESTED:
        raise NotImplementedConstruct("nested DML statement in SET")
    column = cursor.identifier()
    if column.lower() == alias.lower() and cursor.accept("."):
        column = cursor.identifier()
    if cursor.at(".") or cursor.at("["):
        raise NotImplementedConstruct("SET of a field of a STRUCT or an element of an array")
    cursor.expect("=")
    if cursor.at("DEFAULT"):
        raise NotImplementedConstruct("SET … = DEFAULT")
    return Assignment(column, parse_expression(cursor, ",", *stops))


def _clause(cursor: TokenCursor, alias: str) -> MergeClause:
    cursor.expect("WHEN")
    kind = MATCHED
    if cursor.accept("NOT"):
        cursor.expect("MATCHED")
        kind = NOT_MATCHED_BY_TARGET
        if cursor.accept("BY", "SOURCE"):
            kind = NOT_MATCHED_BY_SOURCE
        elif not cursor.accept("BY", "TARGET") and cursor.at("BY"):
            raise cursor.unexpected("Expected keywords BY TARGET or BY SOURCE")
    else:
        cursor.expect("MATCHED")
    condition = parse_expression(cursor, "THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if kind == NOT_MATCHED_BY_TARGET:
        return MergeClause(kind, condition, _insert(cursor))
    if cursor.accept("DELETE"):
        return MergeClause(kind, condition, MergeDelete())
    cursor.expect("UPDATE", "SET")
    return MergeClause(kind, condition, MergeUpdate(_assignments(cursor, alias, ("WHEN",))))


def _insert(cursor: TokenCursor) -> MergeInsert:
    cursor.expect("INSERT")
    columns: list[str] = []
    if cursor.accept("("):
        columns = cursor.comma_separated(cursor.identifier)
        cursor.expect(")")
    if cursor.accept("ROW"):
        return MergeInsert(tuple(columns), None)
    cursor.expect("VALUES", "(")
    values = cursor.comma_separated(lambda: parse_inserted_value(cursor))
    cursor.expect(")")
    return MergeInsert(tuple(columns), tuple(values))


def parse_inserted_value(cursor: TokenCursor) -> exp.Expression:
    """Parses one value of a row after VALUES. Raises NotImplementedConstruct for DEFAULT."""
    if cursor.at("DEFAULT"):
        raise NotImplementedConstruct("DEFAULT in VALUES")
    return parse_expression(cursor, ",", ")")
