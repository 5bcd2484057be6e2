"""Parses the SQL text of a job into statements.

DECLARE, IF, ASSERT and INSERT are parsed here, DDL and CALL in `ddl_parser.py`, other DML in `dml_parser.py`. SQLGlot
parses queries and expressions, which are then checked node by node, so that an unsupported construct is refused before
anything runs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.checked_parse import parse_expression, parse_query
from bigquery_standin.sql.ddl_parser import parse_alter, parse_call, parse_create, parse_drop, parse_undrop
from bigquery_standin.sql.dml_parser import (
    parse_delete,
    parse_inserted_value,
    parse_merge,
    parse_truncate,
    parse_update,
)
from bigquery_standin.sql.statements import (
    Assert,
    Declare,
    If,
    Insert,
    Query,
    Script,
    Statement,
)
from bigquery_standin.sql.table_names import parse_table_name
from bigquery_standin.sql.tokens import TokenCursor, tokenize
from bigquery_standin.sql.type_parser import parse_type_without_parameters

MAXIMUM_CACHED_SCRIPTS = 256
# The first words of GoogleSQL's other statements.
_UNSUPPORTED = frozenset(
    """
    BEGIN BREAK CASE COMMIT CONTINUE DESCRIBE EXECUTE EXPLAIN EXPORT FOR FROM GRANT ITERATE LEAVE LOAD LOOP RAISE REPEAT
    RETURN REVOKE ROLLBACK SET WHILE
    """.split()  # noqa: SIM905  (a list of twenty lines reads worse)
)


def parse_script(text: str) -> Script:
    """The statements of a job's text. The caller may change their trees.

    Raises InvalidQuery for text that GoogleSQL does not accept, NotImplementedConstruct for unsupported constructs.
    """
    return copy.deepcopy(parse_shared_script(text))


@lru_cache(maxsize=MAXIMUM_CACHED_SCRIPTS)
def parse_shared_script(text: str) -> Script:
    """As `parse_script`, but callers with the same text get the same trees, and so must not change them."""
    cursor = TokenCursor(text, tokenize(text))
    statements = _statements(cursor, ())
    if not cursor.at_end():
        raise cursor.unexpected()
    if not statements:
        raise InvalidQuery("Syntax error: Unexpected end of statement", 1, 1)
    _check_declarations(statements)
    return Script(statements, text)


def parse_predicate(text: str) -> exp.Expression:
    """One expression, such as the filter of a row access policy in a request. Raises as `parse_script` does."""
    cursor = TokenCursor(text, tokenize(text))
    predicate = parse_expression(cursor)
    if not cursor.at_end():
        raise cursor.unexpected("Expected end of input")
    return predicate


def _statements(cursor: TokenCursor, ends: tuple[str, ...]) -> tuple[Statement, ...]:
    """Statements up to the end of the script or of a branch. Each needs a `;`, except the last one of a script.

    `ends`: the words that end a branch; empty for a script.
    """
    statements: list[Statement] = []
    while True:
        if cursor.at_end() or cursor.word() in ends:
            return tuple(statements)
        statements.append(_statement(cursor))
        if cursor.at_end() and not ends:
            return tuple(statements)
        if not cursor.accept(";"):
            raise cursor.unexpected('Expected ";"' if ends else "Expected end of input")


def _statement(cursor: TokenCursor) -> Statement:
    parsers: dict[str, Callable[[TokenCursor], Statement]] = {
        "DECLARE": _declare,
        "IF": _if,
        "ASSERT": _assert,
        "CREATE": parse_create,
        "ALTER": parse_alter,
        "DROP": parse_drop,
        "UNDROP": parse_undrop,
        "INSERT": _insert,
        "UPDATE": parse_update,
        "DELETE": parse_delete,
        "MERGE": parse_merge,
        "TRUNCATE": parse_truncate,
        "CALL": parse_call,
        "SELECT": _query,
        "WITH": _query,
        "(": _query,
    }
    parser = parsers.get(cursor.word())
    if cursor.word() in _UNSUPPORTED:
        raise NotImplementedConstruct(f"{cursor.word()} statement")
    if parser is None:
        raise cursor.unexpected()
    return parser(cursor)


def _query(cursor: TokenCursor) -> Query:
    return Query(parse_query(cursor))


def _declare(cursor: TokenCursor) -> Declare:
    cursor.expect("DECLARE")
    names = cursor.comma_separated(cursor.identifier)
    has_type = not cursor.at("DEFAULT") and not cursor.at(";") and not cursor.at_end()
    kind = parse_type_without_parameters(cursor, "a variable") if has_type else None
    default = parse_expression(cursor) if cursor.accept("DEFAULT") else None
    if kind is None and default is None:
        raise cursor.unexpected("Expected a type or keyword DEFAULT")
    return Declare(tuple(names), kind, default)


def _if(cursor: TokenCursor) -> If:
    cursor.expect("IF")
    branches = [_branch(cursor)]
    while cursor.accept("ELSEIF"):
        branches.append(_branch(cursor))
    otherwise = _statements(cursor, ("END",)) if cursor.accept("ELSE") else ()
    cursor.expect("END", "IF")
    return If(tuple(branches), otherwise)


def _branch(cursor: TokenCursor) -> tuple[exp.Expression, tuple[Statement, ...]]:
    condition = parse_expression(cursor, "THEN")
    cursor.expect("THEN")
    return condition, _statements(cursor, ("ELSEIF", "ELSE", "END"))


def _assert(cursor: TokenCursor) -> Assert:
    cursor.expect("ASSERT")
    condition = parse_expression(cursor, "AS")
    return Assert(condition, cursor.string() if cursor.accept("AS") else None)


def _insert(cursor: TokenCursor) -> Insert:
    cursor.expect("INSERT")
    cursor.accept("INTO")
    table = parse_table_name(cursor)
    columns: list[str] = []
    if cursor.at("(") and cursor.word(1) not in ("SELECT", "WITH", "("):
        cursor.expect("(")
        columns = cursor.comma_separated(cursor.identifier)
        cursor.expect(")")
    if cursor.at("VALUES"):
        return Insert(table, tuple(columns), _values(cursor))
    return Insert(table, tuple(columns), parse_query(cursor))


def _values(cursor: TokenCursor) -> exp.Values:
    cursor.expect("VALUES")
    return exp.Values(expressions=cursor.comma_separated(lambda: _row(cursor)))


def _row(cursor: TokenCursor) -> exp.Tuple:
    cursor.expect("(")
    values = cursor.comma_separated(lambda: parse_inserted_value(cursor))
    cursor.expect(")")
    return exp.Tuple(expressions=values)


def _check_declarations(statements: tuple[Statement, ...]) -> None:
    """Raises InvalidQuery for a DECLARE after a statement of another kind or in a branch, and for a variable declared
    twice.
    """
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
