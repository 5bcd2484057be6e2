"""Parses the SQL text of a job.

Each query and expression is checked node by node, so that an unsupported construct is refused before anything runs.
Tokens are refused that SQLGlot would understand otherwise than GoogleSQL does. Other text that GoogleSQL does not
accept may pass: `make check` asks Google's own grammar.
"""

from __future__ import annotations

import copy
import re
from functools import lru_cache

from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.statement_parser import STATEMENTS, StatementParser
from bigquery_standin.sql.statements import Script, Statement
from bigquery_standin.sql.syntax import STAND_IN

MAXIMUM_CACHED_SCRIPTS = 256


def parse_script(text: str) -> Script:
    """The statements of a job's text. The caller may change their trees.

    Raises InvalidQuery for text that GoogleSQL does not accept, NotImplementedConstruct for unsupported constructs.
    """
    return copy.deepcopy(parse_shared_script(text))


@lru_cache(maxsize=MAXIMUM_CACHED_SCRIPTS)
def parse_shared_script(text: str) -> Script:
    """As `parse_script`, but callers with the same text get the same trees, and so must not change them."""
    tokens = tokenize(text)
    return Script(_statements(tokens, text))


def _statements(tokens: list[Token], text: str) -> tuple[Statement, ...]:
    try:
        return StatementParser(error_level=ErrorLevel.IMMEDIATE, dialect=STATEMENTS).script_of(tokens, text)
    except ParseError as error:
        first = error.errors[0]
        text_there = str(first.get("highlight") or "")
        column = max(1, int(first.get("col") or 1) - len(text_there) + 1)
        problem = f'{first.get("description")} near "{text_there}"'
        raise InvalidQuery(f"Syntax error: {problem}", first.get("line"), column) from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # SQLGlot's parser fails with these on some malformed texts.
        raise InvalidQuery("Syntax error: the text cannot be read") from error


# SQLGlot reads these tokens of other dialects and of pipe syntax, and `?`, which is a parameter without a name.
_REFUSED_TOKENS = (
    *(TokenType.DCOLON, TokenType.ARROW, TokenType.DARROW, TokenType.LR_ARROW, TokenType.HINT),
    *(TokenType.PIPE_GT, TokenType.PLACEHOLDER),
)
_SUPPORTED_ESCAPE = re.compile(r"\\[\\'\"`nrtabfv?]")


def tokenize(text: str) -> list[Token]:
    """The text's tokens.

    Raises InvalidQuery for text that cannot be split, such as a string without an end, and NotImplementedConstruct for
    what SQLGlot would understand otherwise than GoogleSQL does.
    """
    try:
        tokens = STAND_IN.tokenize(text)
    except SqlglotError as error:
        raise InvalidQuery(f"Syntax error: {error}") from error
    for token in tokens:
        written = text[token.start : token.end + 1]
        if token.token_type in _REFUSED_TOKENS or text[token.start : token.start + 2] == "==":
            raise NotImplementedConstruct(f"{token.text} in line {token.line}")
        if token.token_type is TokenType.STRING and "\\" in (rest := _SUPPORTED_ESCAPE.sub("", written)):
            position = rest.index("\\")
            raise NotImplementedConstruct(f"string escape {rest[position : position + 2]}")
    return tokens
