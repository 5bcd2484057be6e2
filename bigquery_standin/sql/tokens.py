"""Splits SQL text into tokens, and provides the cursor with which this folder's parsers read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.dialect import STAND_IN

# SQLGlot's tokenizer also accepts these tokens of other dialects.
_FOREIGN_TOKENS = (TokenType.DCOLON, TokenType.ARROW, TokenType.DARROW, TokenType.LR_ARROW, TokenType.HINT)
# GoogleSQL's reserved words, which cannot be names without backticks.
RESERVED = frozenset(
    """
    ALL AND ANY ARRAY AS ASC ASSERT_ROWS_MODIFIED AT BETWEEN BY CASE CAST COLLATE CONTAINS CREATE CROSS CUBE CURRENT
    DEFAULT DEFINE DESC DISTINCT ELSE END ENUM ESCAPE EXCEPT EXCLUDE EXISTS EXTRACT FALSE FETCH FOLLOWING FOR FROM FULL
    GROUP GROUPING GROUPS HASH HAVING IF IGNORE IN INNER INTERSECT INTERVAL INTO IS JOIN LATERAL LEFT LIKE LIMIT LOOKUP
    MERGE NATURAL NEW NO NOT NULL NULLS OF ON OR ORDER OUTER OVER PARTITION PRECEDING PROTO QUALIFY RANGE RECURSIVE
    RESPECT RIGHT ROLLUP ROWS SELECT SET SOME STRUCT TABLESAMPLE THEN TO TREAT TRUE UNBOUNDED UNION UNNEST USING WHEN
    WHERE WINDOW WITH WITHIN
    """.split()  # noqa: SIM905  (a list of a hundred lines reads worse)
)
_OPENING = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_LITERALS = {TokenType.STRING, TokenType.RAW_STRING, TokenType.BYTE_STRING, TokenType.NUMBER}
Item = TypeVar("Item")


def tokenize(text: str) -> list[Token]:
    """The text's tokens.

    Raises InvalidQuery for text that cannot be split, such as a string without an end, and, with the position, for
    tokens that GoogleSQL does not have; NotImplementedConstruct for pipe syntax.
    """
    try:
        tokens = STAND_IN.tokenize(text)
    except SqlglotError as error:
        raise InvalidQuery(f"Syntax error: {error}") from error
    for token in tokens:
        if token.token_type is TokenType.PIPE_GT:
            raise NotImplementedConstruct("pipe syntax |>")
        if token.token_type in _FOREIGN_TOKENS or text[token.start : token.start + 2] == "==":
            raise syntax_error(text, token, f'Unexpected "{token.text}"')
    return tokens


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """The line and column of a character offset, both counted from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def syntax_error(text: str, token: Token, problem: str) -> InvalidQuery:
    return InvalidQuery(f"Syntax error: {problem}", *line_and_column(text, token.start))


def _words(token: Token) -> list[str]:
    """The token's words in upper case; one empty word for a literal or a quoted name.

    Most tokens have one word, but SQLGlot makes one token of PARTITION BY and of a few other pairs.
    """
    if token.token_type in _LITERALS or token.token_type is TokenType.IDENTIFIER:
        return [""]
    return token.text.upper().split()


@dataclass
class TokenCursor:
    """A position in the tokens of one text. Keywords are case-insensitive; quoted names are never keywords.

    `string`, `integer` and `identifier` raise InvalidQuery unless such a token is next.
    """

    text: str
    tokens: Sequence[Token]
    position: int = 0

    @property
    def current(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def ordinals(self) -> dict[int, int]:
        """The number of each `?` in the text, counted from 1, by its offset."""
        offsets = [token.start for token in self.tokens if token.token_type is TokenType.PLACEHOLDER]
        return {offset: number for number, offset in enumerate(offsets, start=1)}

    def at_end(self) -> bool:
        return self.current is None

    def word(self, ahead: int = 0) -> str:
        """The next word in upper case, or the one `ahead` words after it; "" for the end, a quoted name or a literal.

        A symbol such as `(` counts as a word.
        """
        for token in self.tokens[self.position : self.position + ahead + 1]:
            words = _words(token)
            if ahead < len(words):
                return words[ahead]
            ahead -= len(words)
        return ""

    def at(self, *words: str) -> bool:
        """Whether these words are next."""
        return self._length_of(words) is not None

    def accept(self, *words: str) -> bool:
        """Moves past these words if they are next. Returns whether they were."""
        length = self._length_of(words)
        self.position += length or 0
        return length is not None

    def expect(self, *words: str) -> None:
        """Moves past these words. Raises InvalidQuery unless they are next."""
        if not self.accept(*words):
            expected = " ".join(words)
            raise self.unexpected(f"Expected keyword {expected}" if words[0].isalpha() else f'Expected "{expected}"')

    def _length_of(self, words: tuple[str, ...]) -> int | None:
        """The number of tokens of these words if they are next, else None."""
        remaining, position = list(words), self.position
        while remaining:
            words_of_token = _words(self.tokens[position]) if position < len(self.tokens) else [""]
            if remaining[: len(words_of_token)] != words_of_token:
                return None
            del remaining[: len(words_of_token)]
            position += 1
        return position - self.position

    def string(self) -> str:
        """Moves past a string literal and returns its value."""
        token = self.current
        if token is None or token.token_type not in (TokenType.STRING, TokenType.RAW_STRING):
            raise self.unexpected("Expected string literal")
        self.position += 1
        return token.text

    def integer(self) -> int:
        """Moves past a whole number and returns it."""
        token = self.current
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdigit():
            raise self.unexpected("Expected integer literal")
        self.position += 1
        return int(token.text)

    def identifier(self) -> str:
        """Moves past one name, quoted or not, and returns it."""
        token = self.current
        is_name = token is not None and (
            token.token_type is TokenType.IDENTIFIER
            or (token.text.replace("_", "a").isalnum() and not token.text[0].isdigit())
        )
        if token is None or not is_name or token.token_type in _LITERALS or self.word() in RESERVED:
            raise self.unexpected("Expected identifier")
        self.position += 1
        return token.text

    def comma_separated(self, parse_item: Callable[[], Item]) -> list[Item]:
        """Parses one or more items, separated by commas."""
        items = [parse_item()]
        while self.accept(","):
            items.append(parse_item())
        return items

    def unexpected(self, expectation: str = "") -> InvalidQuery:
        """The error for the current token. `expectation`: what is expected instead, such as `Expected identifier`."""
        token = self.current
        if token is None:
            actual, offset = "end of script", len(self.text)
        else:
            actual, offset = f'"{self.text[token.start : token.end + 1]}"', token.start
        problem = f"{expectation} but got {actual}" if expectation else f"Unexpected {actual}"
        return InvalidQuery(f"Syntax error: {problem}", *line_and_column(self.text, offset))

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
                raise self.unexpected(f'Expected "{closers[-1]}"' if closers else "Expected keyword END")
            self.position += 1
        if closers:
            raise self.unexpected(f'Expected "{closers[-1]}"')
        return list(self.tokens[start : self.position])
