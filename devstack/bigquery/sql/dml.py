"""UPDATE, DELETE, MERGE and TRUNCATE TABLE; what of their grammar is not carried out is refused by name."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from devstack.bigquery.errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.checked import parse_checked
from devstack.bigquery.sql.names import take_table_name
from devstack.bigquery.sql.statements import (
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
from devstack.bigquery.sql.tokens import Cursor, tokenize

ParseExpression = Callable[..., exp.Expression]
_NESTED = ("INSERT", "UPDATE", "DELETE")


def take_update(cursor: Cursor, take_expression: ParseExpression) -> Update:
    """Step over an UPDATE statement."""
    cursor.expect("UPDATE")
    table, alias = _target(cursor, ("SET",))
    cursor.expect("SET")
    assignments = _assignments(cursor, alias, take_expression, ("FROM", "WHERE"))
    source = _relation(cursor, ("WHERE",)) if cursor.take("FROM") else None
    if not cursor.take("WHERE"):
        raise _without_where(cursor, "UPDATE")
    return Update(table, alias, assignments, take_expression(cursor), source)


def take_delete(cursor: Cursor, take_expression: ParseExpression) -> Delete:
    """Step over a DELETE statement."""
    cursor.expect("DELETE")
    cursor.take("FROM")
    table, alias = _target(cursor, ("WHERE",))
    if not cursor.take("WHERE"):
        raise _without_where(cursor, "DELETE")
    return Delete(table, alias, take_expression(cursor))


def take_truncate(cursor: Cursor) -> TruncateTable:
    """Step over a TRUNCATE TABLE statement."""
    cursor.expect("TRUNCATE", "TABLE")
    return TruncateTable(take_table_name(cursor))


def take_merge(cursor: Cursor, take_expression: ParseExpression) -> Merge:
    """Step over a MERGE statement."""
    cursor.expect("MERGE")
    cursor.take("INTO")
    table, alias = _target(cursor, ("USING",))
    cursor.expect("USING")
    source = _relation(cursor, ("ON",))
    if source.args.get("joins") or not isinstance(source.args["from_"].this, exp.Table | exp.Subquery):
        raise InvalidQuery("Syntax error: the source of MERGE is one table or subquery")
    cursor.expect("ON")
    condition = take_expression(cursor, "WHEN")
    clauses = [_clause(cursor, alias, take_expression)]
    while cursor.at("WHEN"):
        clauses.append(_clause(cursor, alias, take_expression))
    return Merge(table, alias, source, condition, tuple(clauses))


def _target(cursor: Cursor, ends: tuple[str, ...]) -> tuple[TableName, str]:
    name = take_table_name(cursor)
    has_alias = cursor.take("AS") or not (cursor.at_end() or cursor.at(";") or cursor.word() in ends)
    return name, cursor.identifier() if has_alias else name.table


def _without_where(cursor: Cursor, statement: str) -> InvalidQuery:
    if cursor.at_end() or cursor.at(";"):
        return InvalidQuery(f"{statement} must have a WHERE clause: WHERE TRUE means all rows")
    return cursor.unexpected("Expected keyword WHERE")


def _relation(cursor: Cursor, stops: tuple[str, ...]) -> exp.Select:
    """What FROM or USING names, read as the FROM clause of a SELECT of all columns."""
    tokens = cursor.until(*stops)
    if not tokens:
        raise cursor.unexpected()
    tree = parse_checked(cursor, [*tokenize("SELECT * FROM"), *tokens])
    plain = {"kind", "expressions", "from_", "joins"}
    if not isinstance(tree, exp.Select) or any(value for part, value in tree.args.items() if part not in plain):
        raise InvalidQuery("Syntax error: expected tables and joins, found more clauses of a query")
    return tree


def _assignments(
    cursor: Cursor, alias: str, take_expression: ParseExpression, ends: tuple[str, ...]
) -> tuple[Assignment, ...]:
    found = [_assignment(cursor, alias, take_expression, ends)]
    while cursor.take(","):
        found.append(_assignment(cursor, alias, take_expression, ends))
    seen: list[tuple[str, ...]] = []
    for item in found:
        path = tuple(part.lower() for part in item.path)
        if any(path[: len(other)] == other or other[: len(path)] == path for other in seen):
            raise InvalidQuery(f"Update item {'.'.join(item.path)} overlaps with another one: set each column once")
        seen.append(path)
    return tuple(found)


def _assignment(cursor: Cursor, alias: str, take_expression: ParseExpression, ends: tuple[str, ...]) -> Assignment:
    if cursor.at("(") and cursor.word(1) in _NESTED:
        raise NotImplementedConstruct("nested DML statement in SET")
    path = [cursor.identifier()]
    while cursor.take("."):
        path.append(cursor.identifier())
    if len(path) > 1 and path[0].lower() == alias.lower():
        del path[0]
    if cursor.at("["):
        raise NotImplementedConstruct("SET of an array's element")
    cursor.expect("=")
    if cursor.at("DEFAULT"):
        raise NotImplementedConstruct("SET … = DEFAULT")
    return Assignment(tuple(path), take_expression(cursor, ",", *ends))


def _clause(cursor: Cursor, alias: str, take_expression: ParseExpression) -> MergeClause:
    cursor.expect("WHEN")
    kind = MATCHED
    if cursor.take("NOT"):
        cursor.expect("MATCHED")
        kind = NOT_MATCHED_BY_TARGET
        if cursor.take("BY", "SOURCE"):
            kind = NOT_MATCHED_BY_SOURCE
        elif not cursor.take("BY", "TARGET") and cursor.at("BY"):
            raise cursor.unexpected("Expected keywords BY TARGET or BY SOURCE")
    else:
        cursor.expect("MATCHED")
    condition = take_expression(cursor, "THEN") if cursor.take("AND") else None
    cursor.expect("THEN")
    if kind == NOT_MATCHED_BY_TARGET:
        return MergeClause(kind, condition, _insert(cursor, take_expression))
    if cursor.take("DELETE"):
        return MergeClause(kind, condition, MergeDelete())
    cursor.expect("UPDATE", "SET")
    return MergeClause(kind, condition, MergeUpdate(_assignments(cursor, alias, take_expression, ("WHEN",))))


def _insert(cursor: Cursor, take_expression: ParseExpression) -> MergeInsert:
    cursor.expect("INSERT")
    columns: list[str] = []
    if cursor.take("("):
        columns.append(cursor.identifier())
        while cursor.take(","):
            columns.append(cursor.identifier())
        cursor.expect(")")
    if cursor.take("ROW"):
        return MergeInsert(tuple(columns), None)
    cursor.expect("VALUES", "(")
    values: list[exp.Expression] = []
    while True:
        if cursor.at("DEFAULT"):
            raise NotImplementedConstruct("DEFAULT in VALUES")
        values.append(take_expression(cursor, ",", ")"))
        if not cursor.take(","):
            break
    cursor.expect(")")
    return MergeInsert(tuple(columns), tuple(values))
