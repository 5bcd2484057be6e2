"""Splits SQL text into tokens, and provides the cursor with which `script_parser.py` reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.dialect import STAND_IN

# SQLGlot's tokenizer also accepts these tokens of other dialects.
_FOREIGN_TOKENS = (TokenType.DCOLON, TokenType.ARROW, TokenType.DARROW, TokenType.LR_ARROW, TokenType.HINT)
_OPENING = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_NO_WORDS = {TokenType.STRING, TokenType.RAW_STRING, TokenType.BYTE_STRING, TokenType.NUMBER, TokenType.IDENTIFIER}
_SUPPORTED_ESCAPE = re.compile(r"\\[\\'\"`nrtabfv?]")
_SET_OPERATORS = {"UNION", "INTERSECT", "EXCEPT"}


def tokenize(text: str) -> list[Token]:
    """The text's tokens.

    Raises InvalidQuery for text that cannot be split, such as a string without an end, and for what SQLGlot would
    understand otherwise than GoogleSQL does; NotImplementedConstruct for pipe syntax and for some string escapes.
    """
    try:
        tokens = STAND_IN.tokenize(text)
    except SqlglotError as error:
        raise InvalidQuery(f"Syntax error: {error}") from error
    for token in tokens:
        written = text[token.start : token.end + 1]
        if token.token_type is TokenType.PIPE_GT:
            raise NotImplementedConstruct("pipe syntax |>")
        if token.token_type in _FOREIGN_TOKENS or text[token.start : token.start + 2] == "==":
            raise syntax_error(text, token, f'Unexpected "{token.text}"')
        if token.token_type is TokenType.STRING and "\\" in (rest := _SUPPORTED_ESCAPE.sub("", written)):
            position = rest.index("\\")
            raise NotImplementedConstruct(f"string escape {rest[position : position + 2]}")
    _refuse_mixed_set_operators(text, tokens)
    return tokens


def _refuse_mixed_set_operators(text: str, tokens: Sequence[Token]) -> None:
    """Refuses different set operators between the same parentheses: SQLGlot would choose the order of evaluation."""
    operators = [""]  # for each open parenthesis, the set operator in it
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.SEMICOLON:
            operators = [""]
        elif token.token_type is TokenType.L_PAREN:
            operators.append("")
        elif token.token_type is TokenType.R_PAREN:
            operators = operators[:-1] or [""]
        elif _word(token) in _SET_OPERATORS and _word(following) in {"ALL", "DISTINCT"}:  # not SELECT * EXCEPT (…)
            operator = f"{_word(token)} {_word(following)}"
            if operators[-1] not in ("", operator):
                raise syntax_error(
                    text, token, f"{operators[-1]} and {operator} in one query need parentheses for their grouping"
                )
            operators[-1] = operator


def syntax_error(text: str, token: Token | None, problem: str) -> InvalidQuery:
    """The error at a token; None: at the end of the text."""
    before = text[: len(text) if token is None else token.start]
    return InvalidQuery(f"Syntax error: {problem}", before.count("\n") + 1, len(before) - before.rfind("\n"))


def _word(token: Token) -> str:
    """The token in upper case; "" for a literal or a quoted name."""
    return "" if token.token_type in _NO_WORDS else token.text.upper()


@dataclass
class TokenCursor:
    """A position in the tokens of one text. Keywords are case-insensitive; quoted names are never keywords."""

    text: str
    tokens: Sequence[Token]
    position: int = 0

    @property
    def current(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def at_end(self) -> bool:
        return self.current is None

    def word(self) -> str:
        """The next word or symbol in upper case; "" for the end, a quoted name or a literal."""
        return "" if self.current is None else _word(self.current)

    def accept(self, word: str) -> bool:
        """Moves past this word if it is next. Returns whether it was."""
        if self.word() != word:
            return False
        self.position += 1
        return True

    def expect(self, word: str) -> None:
        """Moves past this word. Raises InvalidQuery unless it is next."""
        if not self.accept(word):
            raise self.unexpected(f"Expected {word}")

    def unexpected(self, expectation: str = "") -> InvalidQuery:
        """The error for the current token. `expectation`: what is expected instead, such as `Expected THEN`."""
        token = self.current
        actual = "end of script" if token is None else f'"{self.text[token.start : token.end + 1]}"'
        problem = f"{expectation} but got {actual}" if expectation else f"Unexpected {actual}"
        return syntax_error(self.text, token, problem)

    def take_until(self, *stops: str) -> list[Token]:
        """Moves to the first `;` or stop word outside brackets and CASE, or to the end. Returns the tokens before it.

        Raises InvalidQuery for unbalanced brackets, and for a `;` inside brackets or CASE.
        """
        start, cases = self.position, 0
        closers: list[str] = []
        while (token := self.current) is not None:
            word = self.word()
            if not closers and not cases and (token.token_type is TokenType.SEMICOLON or word in stops):
                break
            if token.token_type in _OPENING:
                closers.append(_OPENING[token.token_type])
            elif token.token_type in _CLOSING:
                if not closers or closers.pop() != token.text:
                    raise self.unexpected()
            elif not closers:
                cases += (word == "CASE") - (word == "END" and cases > 0)
            if token.token_type is TokenType.SEMICOLON:
                raise self.unexpected(f'Expected "{closers[-1]}"' if closers else "Expected END")
            self.position += 1
        if closers:
            raise self.unexpected(f'Expected "{closers[-1]}"')
        return list(self.tokens[start : self.position])
