"""Parses a query or an expression with SQLGlot, and refuses what SQLGlot accepts although GoogleSQL does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.dialect import parse_tokens
from devstack.bigquery.sql.reserved_words import RESERVED
from devstack.bigquery.sql.tokens import TokenCursor, describe, syntax_error
from devstack.bigquery.sql.transpile import check

_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
# Tokens that can be the last one of a value. No string may follow a value.
_VALUE_ENDS = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.NUMBER, TokenType.IDENTIFIER, *_STRINGS)
_SUPPORTED_ESCAPE = re.compile(r"\\[\\'\"`nrtabfv?]")
_OPEN_OR_COMMA = {"(", "[", ","}
_CLOSE_OR_COMMA = {")", "]", ",", ""}
_OPERATORS = {"+", "-", "*", "/", "=", "<", ">", "<=", ">=", "<>", "!=", "||", "&", "|", "^", "~"}
_SET_OPERATORS = {"UNION", "INTERSECT", "EXCEPT"}
_LIST_KEYWORDS = {"GROUP BY", "ORDER BY", "PARTITION BY"}
_EXPRESSION_STARTS = {"ALL", "ARRAY", "CASE", "CAST", "CUBE", "EXISTS", "EXTRACT", "FALSE", "GROUPING"} | {
    *("IF", "INTERVAL", "NOT", "NULL", "ROLLUP", "STRUCT", "TRUE")
}
_WORDS_BEFORE_ALL = {"UNION", "EXCEPT", "INTERSECT", "GROUP BY", "SELECT"}
_TYPES_WITHOUT_LITERALS = {"STRING", "INT64", "FLOAT64", "BOOL", "BYTES"}
_TYPES = {"DATE", "DATETIME", "TIME", "TIMESTAMP", "NUMERIC"} | _TYPES_WITHOUT_LITERALS


def parse_checked(cursor: TokenCursor, tokens: list[Token], *, may_be_interval: bool = False) -> exp.Expression:
    """The SQLGlot tree of tokens that the cursor has already read.

    `may_be_interval`: whether the whole expression may be an INTERVAL.

    Raises InvalidQuery for text that GoogleSQL does not accept, NotImplementedConstruct for unsupported constructs.
    """
    if not tokens:
        raise cursor.unexpected()
    _refuse_misplaced_tokens(cursor.text, tokens)
    _refuse_mixed_set_operators(cursor.text, tokens)
    tree = parse_tokens(tokens, cursor.text, cursor.ordinals())
    _refuse_reserved_names(tree)
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


def _refuse_misplaced_tokens(text: str, tokens: Sequence[Token]) -> None:
    """Refuses strings as aliases, after a type without literals (`INT64 '1'`) or directly after a value, unsupported
    escapes, and words that cannot stand beside each other.
    """
    for position, token in enumerate(tokens):
        previous = tokens[position - 1] if position else None
        following = tokens[position + 1] if position + 1 < len(tokens) else None
        before, after = _text(previous), _text(following)
        if token.token_type in _STRINGS:
            is_misplaced = before == "AS" or before in _TYPES_WITHOUT_LITERALS
            if previous is not None and (is_misplaced or previous.token_type in _VALUE_ENDS):
                raise syntax_error(text, token, f"Unexpected {describe(token, text)}")
            if token.token_type is TokenType.STRING:
                _refuse_escapes(text[token.start : token.end + 1])
        elif _is_out_of_place(_text(token), before, after, following):
            raise syntax_error(text, token, f"Unexpected {describe(token, text)}")


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


def _text(token: Token | None) -> str:
    """The token in upper case, "" for no token, NUL for a string, bytes or a quoted name."""
    if token is None:
        return ""
    is_word = token.token_type not in (*_STRINGS, TokenType.BYTE_STRING, TokenType.IDENTIFIER)
    return token.text.upper() if is_word else "\0"


def _is_out_of_place(word: str, before: str, after: str, following: Token | None) -> bool:
    """Whether the word cannot stand between the words `before` and `after`. `following`: the token of `after`."""
    rule = _RULES.get(word)
    if rule is not None:
        return rule(before, after)
    next_kind = following.token_type if following is not None else None
    if word == ".":
        return after in {"(", ""} or next_kind in _STRINGS
    return word in _TYPES and next_kind is TokenType.NUMBER


def _first_word(text: str) -> str:
    return text.split()[0] if text.split() else ""


def _cannot_begin(text: str) -> bool:
    """Whether no expression begins with this text."""
    word = _first_word(text)
    return text in _CLOSE_OR_COMMA or (word in RESERVED and word not in _EXPRESSION_STARTS)


def _is_no_name(text: str) -> bool:
    word = _first_word(text)
    is_reserved = word in RESERVED and word not in {"STRUCT", "ARRAY", "INTERVAL", "RANGE", "OF"}  # AS type, AS OF
    return is_reserved or text in _CLOSE_OR_COMMA or text[0].isdigit() or text == "*"


# By word, the rule that gets the words before and after it, and returns whether it is out of place between them.
_RULES: dict[str, Callable[[str, str], bool]] = {
    ",": lambda before, after: (
        before in _OPEN_OR_COMMA | _LIST_KEYWORDS | {"SELECT", "AS", ""} or after in _CLOSE_OR_COMMA | _LIST_KEYWORDS
    ),
    "SELECT": lambda _, after: after in {"FROM", "", ")"},
    "AS": lambda _, after: _is_no_name(after),
    "FROM": lambda before, after: before != "DISTINCT" and (not after or (_cannot_begin(after) and after != "UNNEST")),
    "IN": lambda _, after: _first_word(after) not in {"(", "UNNEST"},
    "ALL": lambda before, _: before not in _WORDS_BEFORE_ALL,
    "OVER": lambda _, after: not after,
    "@": lambda before, _: before in {")", "]", "."} or before[:1].isdigit(),
    "NOT": lambda before, _: before in _OPERATORS,
    "UNNEST": lambda _, after: after != "(",
    "STRUCT": lambda before, after: before != "AS" and after not in {"(", "<"},
    **dict.fromkeys(_LIST_KEYWORDS, lambda _, after: _cannot_begin(after)),
}


def _refuse_escapes(source: str) -> None:
    remaining = _SUPPORTED_ESCAPE.sub("", source)
    if "\\" in remaining:
        position = remaining.index("\\")
        raise NotImplementedConstruct(f"string escape {remaining[position : position + 2]}")


def _refuse_reserved_names(tree: exp.Expr) -> None:
    """Refuses reserved words as names, as in `SELECT 1 NULL`. SQLGlot accepts most words as names."""
    for identifier in tree.find_all(exp.Identifier):
        if not identifier.quoted and identifier.name.upper() in RESERVED and not _follows_dot(identifier):
            raise InvalidQuery(f"Syntax error: Unexpected keyword {identifier.name.upper()}")


def _follows_dot(identifier: exp.Identifier) -> bool:
    parent = identifier.parent
    if isinstance(parent, exp.Column | exp.Table):
        return parent.parts[0] is not identifier
    return isinstance(parent, exp.Dot) and parent.expression is identifier
