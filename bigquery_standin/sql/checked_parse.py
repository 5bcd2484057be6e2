"""Parses a query or an expression with SQLGlot, and refuses what it would understand otherwise than GoogleSQL does.

Text that GoogleSQL does not accept may pass: `make check` asks Google's own grammar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import NotImplementedConstruct
from bigquery_standin.sql.dialect import parse_tokens
from bigquery_standin.sql.tokens import TokenCursor, syntax_error
from bigquery_standin.sql.transpile import check

_SUPPORTED_ESCAPE = re.compile(r"\\[\\'\"`nrtabfv?]")
_SET_OPERATORS = {"UNION", "INTERSECT", "EXCEPT"}


def parse_checked(cursor: TokenCursor, tokens: list[Token], *, may_be_interval: bool = False) -> exp.Expression:
    """The SQLGlot tree of tokens that the cursor has already read.

    `may_be_interval`: whether the whole expression may be an INTERVAL.

    Raises InvalidQuery for text that GoogleSQL does not accept, NotImplementedConstruct for unsupported constructs.
    """
    if not tokens:
        raise cursor.unexpected()
    _refuse_escapes(cursor.text, tokens)
    _refuse_mixed_set_operators(cursor.text, tokens)
    tree = parse_tokens(tokens, cursor.text, cursor.ordinals())
    if not (may_be_interval and isinstance(tree, exp.Interval)):
        check(tree)
    return tree


def parse_query(cursor: TokenCursor) -> exp.Expression:
    """Parses a query up to the end of the statement. Raises as `parse_checked` does."""
    start = cursor.current
    tree = parse_checked(cursor, cursor.take_until())
    if not isinstance(tree, exp.Query) or (isinstance(tree, exp.Subquery) and not isinstance(tree.this, exp.Query)):
        position = cursor.position
        cursor.position = cursor.tokens.index(start) if start is not None else position
        raise cursor.unexpected("Expected keyword SELECT or keyword WITH")
    return tree


def parse_expression(cursor: TokenCursor, *stops: str) -> exp.Expression:
    """Parses an expression up to one of the stop words or the end of the statement. Raises as `parse_checked` does."""
    tree = parse_checked(cursor, cursor.take_until(*stops))
    if isinstance(tree, exp.Alias | exp.Select | exp.SetOperation | exp.Star):
        raise cursor.unexpected("Expected an expression")
    return tree


def _refuse_mixed_set_operators(text: str, tokens: Sequence[Token]) -> None:
    """Refuses different set operators between the same parentheses: SQLGlot would choose the order of evaluation."""
    operators = [""]  # for each open parenthesis, the set operator in it
    for token, following in pairwise(tokens):
        word = _text(token)
        if word == "(":
            operators.append("")
        elif word == ")":
            operators = operators[:-1] or [""]
        elif word in _SET_OPERATORS and _text(following) in {"ALL", "DISTINCT"}:  # not SELECT * EXCEPT (…)
            operator = f"{word} {_text(following)}"
            if operators[-1] not in ("", operator):
                raise syntax_error(
                    text, token, f"{operators[-1]} and {operator} in one query need parentheses for their grouping"
                )
            operators[-1] = operator


def _text(token: Token) -> str:
    """The token in upper case; "" for a string or a quoted name."""
    return (
        "" if token.token_type in (TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER) else token.text.upper()
    )


def _refuse_escapes(text: str, tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.token_type is TokenType.STRING:
            remaining = _SUPPORTED_ESCAPE.sub("", text[token.start : token.end + 1])
            if "\\" in remaining:
                position = remaining.index("\\")
                raise NotImplementedConstruct(f"string escape {remaining[position : position + 2]}")
