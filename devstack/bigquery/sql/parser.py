"""The text of a job as statements: `parse_script`.

Scripts, DDL and DML are parsed here and in `ddl.py` and `dml.py`; queries and expressions go to SQLGlot and are then
checked node by node, so that a construct which the stand-in does not carry out is refused before anything runs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache

from sqlglot import exp

from devstack.bigquery.errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.checked import parse_checked
from devstack.bigquery.sql.column_types import field_of_column, take_type
from devstack.bigquery.sql.ddl import take_alter, take_create, take_drop
from devstack.bigquery.sql.dml import take_delete, take_merge, take_truncate, take_update
from devstack.bigquery.sql.names import take_table_name
from devstack.bigquery.sql.refused_statements import refuse_statement
from devstack.bigquery.sql.statements import (
    Assert,
    Declare,
    If,
    Insert,
    Query,
    Script,
    SetVariable,
    Statement,
)
from devstack.bigquery.sql.tokens import Cursor, tokenize

TEXTS_KEPT = 256


def parse_script(text: str) -> Script:
    """Statements of a job's text, which the caller may change.

    Raises InvalidQuery for text that GoogleSQL does not accept, NotImplementedConstruct for what the stand-in lacks.
    """
    return copy.deepcopy(parsed_script(text))


@lru_cache(maxsize=TEXTS_KEPT)
def parsed_script(text: str) -> Script:
    """The same for those who only look: the texts that readers send again and again are parsed once."""
    cursor = Cursor(text, tokenize(text))
    statements = _statements(cursor, ())
    if not cursor.at_end():
        raise cursor.unexpected()
    if not statements:
        raise InvalidQuery("Syntax error: Unexpected end of statement", 1, 1)
    _check_declarations(statements)
    return Script(statements, text)


def parse_predicate(text: str) -> exp.Expression:
    """One expression, as the filter of a row access policy is given in a request. Raises as `parse_script` does."""
    cursor = Cursor(text, tokenize(text))
    predicate = _expression(cursor)
    if not cursor.at_end():
        raise cursor.unexpected("Expected end of input")
    return predicate


def _statements(cursor: Cursor, ends: tuple[str, ...]) -> tuple[Statement, ...]:
    """Statements up to the end or to one of the words that end a branch; each one but the last needs its `;`."""
    statements: list[Statement] = []
    while True:
        if cursor.at_end() or cursor.word() in ends:
            return tuple(statements)
        statements.append(_statement(cursor))
        if cursor.at_end() and not ends:
            return tuple(statements)
        if not cursor.take(";"):
            raise cursor.unexpected('Expected ";"' if ends else "Expected end of input")


def _statement(cursor: Cursor) -> Statement:
    takers: dict[str, Callable[[Cursor], Statement]] = {
        "DECLARE": _declare,
        "SET": _set,
        "IF": _if,
        "ASSERT": _assert,
        "CREATE": lambda at: take_create(at, _query_tree, _expression),
        "ALTER": take_alter,
        "DROP": take_drop,
        "INSERT": _insert,
        "UPDATE": lambda at: take_update(at, _expression),
        "DELETE": lambda at: take_delete(at, _expression),
        "MERGE": lambda at: take_merge(at, _expression),
        "TRUNCATE": take_truncate,
        "SELECT": lambda at: Query(_query_tree(at)),
        "WITH": lambda at: Query(_query_tree(at)),
        "(": lambda at: Query(_query_tree(at)),
    }
    refuse_statement(cursor)
    taker = takers.get(cursor.word())
    if taker is None:
        raise cursor.unexpected()
    return taker(cursor)


def _query_tree(cursor: Cursor) -> exp.Expression:
    start = cursor.current
    tree = parse_checked(cursor, cursor.until())
    if not isinstance(tree, exp.Query) or (isinstance(tree, exp.Subquery) and not isinstance(tree.this, exp.Query)):
        position = cursor.position
        cursor.position = cursor.tokens.index(start) if start is not None else position
        raise cursor.unexpected("Expected keyword SELECT or keyword WITH")
    return tree


def _expression(cursor: Cursor, *stops: str) -> exp.Expression:
    tree = parse_checked(cursor, cursor.until(*stops))
    if isinstance(tree, exp.Alias | exp.Select | exp.SetOperation | exp.Star):
        raise cursor.unexpected("Expected an expression")
    return tree


def _declare(cursor: Cursor) -> Declare:
    cursor.expect("DECLARE")
    names = [cursor.identifier()]
    while cursor.take(","):
        names.append(cursor.identifier())
    has_type = not cursor.at("DEFAULT") and not cursor.at(";") and not cursor.at_end()
    type_name = field_of_column(take_type(cursor)).sql_type() if has_type else None
    default = _expression(cursor) if cursor.take("DEFAULT") else None
    if type_name is None and default is None:
        raise cursor.unexpected("Expected a type or keyword DEFAULT")
    return Declare(tuple(names), type_name, default)


def _set(cursor: Cursor) -> SetVariable:
    cursor.expect("SET")
    if cursor.take("("):
        names = [cursor.identifier()]
        while cursor.take(","):
            names.append(cursor.identifier())
        cursor.expect(")")
    else:
        names = [cursor.identifier()]
    cursor.expect("=")
    return SetVariable(tuple(names), _expression(cursor))


def _if(cursor: Cursor) -> If:
    cursor.expect("IF")
    branches = [_branch(cursor)]
    while cursor.take("ELSEIF"):
        branches.append(_branch(cursor))
    otherwise = _statements(cursor, ("END",)) if cursor.take("ELSE") else ()
    cursor.expect("END", "IF")
    return If(tuple(branches), otherwise)


def _branch(cursor: Cursor) -> tuple[exp.Expression, tuple[Statement, ...]]:
    condition = _expression(cursor, "THEN")
    cursor.expect("THEN")
    return condition, _statements(cursor, ("ELSEIF", "ELSE", "END"))


def _assert(cursor: Cursor) -> Assert:
    cursor.expect("ASSERT")
    condition = _expression(cursor, "AS")
    return Assert(condition, cursor.string() if cursor.take("AS") else None)


def _insert(cursor: Cursor) -> Insert:
    cursor.expect("INSERT")
    cursor.take("INTO")
    table = take_table_name(cursor)
    columns: list[str] = []
    if cursor.at("(") and cursor.word(1) not in ("SELECT", "WITH", "("):
        cursor.expect("(")
        columns.append(cursor.identifier())
        while cursor.take(","):
            columns.append(cursor.identifier())
        cursor.expect(")")
    if cursor.at("VALUES"):
        return Insert(table, tuple(columns), _values(cursor))
    return Insert(table, tuple(columns), _query_tree(cursor))


def _values(cursor: Cursor) -> exp.Values:
    """Rows as tuples; `exp.Values` keeps them as the executor's source."""
    cursor.expect("VALUES")
    rows: list[exp.Expression] = []
    while True:
        cursor.expect("(")
        if cursor.at("DEFAULT"):
            raise NotImplementedConstruct("DEFAULT in VALUES")
        row = [_expression(cursor, ",", ")")]
        while cursor.take(","):
            row.append(_expression(cursor, ",", ")"))
        cursor.expect(")")
        rows.append(exp.Tuple(expressions=row))
        if not cursor.take(","):
            return exp.Values(expressions=rows)


def _check_declarations(statements: tuple[Statement, ...]) -> None:
    """DECLARE comes first in a script, and once for each name."""
    seen: set[str] = set()
    body_begun = False
    for statement in statements:
        if not isinstance(statement, Declare):
            body_begun = True
            _refuse_nested_declarations(statement)
            continue
        if body_begun:
            raise InvalidQuery("Variable declarations are allowed only at the start of a block or script")
        for name in statement.names:
            if name.lower() in seen:
                raise InvalidQuery(f"Variable '{name}' redeclaration is not allowed")
            seen.add(name.lower())


def _refuse_nested_declarations(statement: Statement) -> None:
    if isinstance(statement, If):
        for body in (*(body for _, body in statement.branches), statement.otherwise):
            for inner in body:
                if isinstance(inner, Declare):
                    raise InvalidQuery("Variable declarations are allowed only at the start of a block or script")
                _refuse_nested_declarations(inner)
