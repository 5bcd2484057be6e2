"""Parses the SQL text of a job into statements.

SQLGlot parses the statements, and `statement_parser.py` those for which it has no node; only IF is parsed here. Each
query and expression is checked node by node, so that an unsupported construct is refused before anything runs. Text
that GoogleSQL does not accept may pass: `make check` asks Google's own grammar.
"""

from __future__ import annotations

import copy
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.ddl_parser import alter_table, create_table, drop
from bigquery_standin.sql.dml_parser import DmlNode, dml_statement_of, refuse_words
from bigquery_standin.sql.statement_parser import STATEMENTS, Own, StatementParser
from bigquery_standin.sql.statements import Declare, If, Query, Script, Statement
from bigquery_standin.sql.tokens import TokenCursor, syntax_error, tokenize
from bigquery_standin.sql.transpile import check

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
    return _expression(cursor, cursor.take_until())


def _statements(cursor: TokenCursor, ends: tuple[str, ...]) -> tuple[Statement, ...]:
    """Statements up to the end of the script or of a branch. Each needs a `;`, except the last one of a script.

    `ends`: the words that end a branch; empty for a script.
    """
    statements: list[Statement] = []
    while True:
        if cursor.at_end() or cursor.word() in ends:
            return tuple(statements)
        statements.append(_if(cursor) if cursor.accept("IF") else _statement(cursor))
        if cursor.at_end() and not ends:
            return tuple(statements)
        if not cursor.accept(";"):
            raise cursor.unexpected('Expected ";"' if ends else "Expected end of input")


def _if(cursor: TokenCursor) -> If:
    branches = [_branch(cursor)]
    while cursor.accept("ELSEIF"):
        branches.append(_branch(cursor))
    otherwise = _statements(cursor, ("END",)) if cursor.accept("ELSE") else ()
    cursor.expect("END")
    cursor.expect("IF")
    return If(tuple(branches), otherwise)


def _branch(cursor: TokenCursor) -> tuple[exp.Expression, tuple[Statement, ...]]:
    condition = _expression(cursor, cursor.take_until("THEN"))
    cursor.expect("THEN")
    return condition, _statements(cursor, ("ELSEIF", "ELSE", "END"))


def _statement(cursor: TokenCursor) -> Statement:
    first_word = cursor.word().partition(" ")[0]  # BEGIN TRANSACTION is one token
    if first_word in _UNSUPPORTED:
        raise NotImplementedConstruct(f"{first_word} statement")
    start, tokens = cursor.current, cursor.take_until()
    refuse_words(tokens)
    tree = _parse(cursor, tokens)
    if isinstance(tree, exp.Subquery) and not isinstance(tree.this, exp.Query):
        raise syntax_error(cursor.text, start, "Expected a query")
    match tree:
        case Own():
            statement: Statement = tree.this
            return statement
        case exp.Query():
            check(tree)
            return Query(tree)
        case exp.Create():
            return create_table(tree)
        case exp.Alter():
            return alter_table(tree)
        case exp.Drop():
            return drop(tree)
        case _ if isinstance(tree, DmlNode):
            return dml_statement_of(tree)
    raise syntax_error(cursor.text, start, "Expected a statement")


def _expression(cursor: TokenCursor, tokens: list[Token]) -> exp.Expression:
    tree = _parse(cursor, tokens)
    if isinstance(tree, exp.Alias | exp.Select | exp.SetOperation | exp.Star | Own):
        raise syntax_error(cursor.text, tokens[0], "Expected an expression")
    check(tree)
    return tree


def _parse(cursor: TokenCursor, tokens: list[Token]) -> exp.Expression:
    """SQLGlot's tree of some of the text's tokens. Positions in errors refer to the whole text."""
    if not tokens:
        raise cursor.unexpected()
    parser = StatementParser(error_level=ErrorLevel.IMMEDIATE, dialect=STATEMENTS)
    offsets = [token.start for token in cursor.tokens if token.token_type is TokenType.PLACEHOLDER]
    parser.ordinals = {offset: number for number, offset in enumerate(offsets, start=1)}
    try:
        (tree,) = parser.parse(tokens, cursor.text)
    except ParseError as error:
        first = error.errors[0]
        text_there = str(first.get("highlight") or "")
        column = max(1, int(first.get("col") or 1) - len(text_there) + 1)
        raise InvalidQuery(f'Syntax error near "{text_there}"', first.get("line"), column) from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # SQLGlot's parser fails with these on some malformed texts.
        raise syntax_error(cursor.text, tokens[0], "this statement cannot be read") from error
    if not isinstance(tree, exp.Expression):
        raise syntax_error(cursor.text, tokens[0], "Unexpected end of statement")
    return tree


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
