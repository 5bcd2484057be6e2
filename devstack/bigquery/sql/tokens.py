"""A script's text as a row of tokens with exact places, and the cursor that our own parser walks it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from devstack.bigquery.errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.dialect import STAND_IN
from devstack.bigquery.sql.reserved import RESERVED

# SQLGlot's tokenizer serves many dialects; these it reads although GoogleSQL has no such token.
_FOREIGN_TOKENS = {
    TokenType.DCOLON: "::",
    TokenType.ARROW: "->",
    TokenType.DARROW: "->>",
    TokenType.LR_ARROW: "<->",
    TokenType.HINT: "/*+",
    TokenType.DIV: "DIV",
}
_PIPE = {TokenType.PIPE_GT}
_OPENING = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_LITERALS = {
    TokenType.STRING: "string literal",
    TokenType.RAW_STRING: "string literal",
    TokenType.BYTE_STRING: "bytes literal",
    TokenType.NUMBER: "number literal",
}


def tokenize(text: str) -> list[Token]:
    """The text's tokens; what GoogleSQL's lexer lacks is refused with its place."""
    try:
        tokens = STAND_IN.tokenize(text)
    except TokenError as error:
        raise InvalidQuery(f"Syntax error: {error}") from error
    except SqlglotError as error:
        raise InvalidQuery(f"Syntax error: {error}") from error
    for token in tokens:
        if token.token_type in _PIPE:
            raise NotImplementedConstruct("pipe syntax |>")
        if token.token_type in _FOREIGN_TOKENS and not token.text.isalpha():
            raise syntax_error(text, token, f'Unexpected "{_FOREIGN_TOKENS[token.token_type]}"')
        if text[token.start : token.start + 2] == "==":
            raise syntax_error(text, token, 'Unexpected "=="')
    return tokens


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of a character offset."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def syntax_error(text: str, token: Token, problem: str) -> InvalidQuery:
    return InvalidQuery(f"Syntax error: {problem}", *place(text, token.start))


def describe(token: Token, text: str) -> str:
    """A token as ZetaSQL's messages name it."""
    if token.token_type in _LITERALS:
        return f"{_LITERALS[token.token_type]} {text[token.start : token.end + 1]}"
    if token.token_type is TokenType.IDENTIFIER:
        return f"identifier `{token.text}`"
    if token.token_type is TokenType.VAR:
        return f'identifier "{token.text}"'
    return f"keyword {token.text.upper()}" if token.text.isalpha() else f'"{token.text}"'


def _words(token: Token) -> list[str]:
    """SQLGlot makes one token of PARTITION BY and of a few more pairs."""
    if token.token_type in _LITERALS or token.token_type is TokenType.IDENTIFIER:
        return [""]
    return token.text.upper().split()


@dataclass
class Cursor:
    """A position in the tokens of one text. Keywords are compared by their text, in any case, unless quoted."""

    text: str
    tokens: Sequence[Token]
    position: int = 0

    @property
    def current(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def ordinals(self) -> dict[int, int]:
        """The number, from 1, of each `?` of the text, by its offset."""
        offsets = [token.start for token in self.tokens if token.token_type is TokenType.PLACEHOLDER]
        return {offset: number for number, offset in enumerate(offsets, start=1)}

    def at_end(self) -> bool:
        return self.current is None

    def word(self, ahead: int = 0) -> str:
        """The upper-case word `ahead` of here, or "" where there is none (end, quoted name, literal)."""
        for token in self.tokens[self.position : self.position + ahead + 1]:
            words = _words(token)
            if ahead < len(words):
                return words[ahead]
            ahead -= len(words)
        return ""

    def at(self, *words: str) -> bool:
        return self._length_of(words) is not None

    def take(self, *words: str) -> bool:
        """Step over these words if they are all here."""
        length = self._length_of(words)
        self.position += length or 0
        return length is not None

    def expect(self, *words: str) -> None:
        if not self.take(*words):
            wanted = " ".join(words)
            raise self.unexpected(f"Expected keyword {wanted}" if words[0].isalpha() else f'Expected "{wanted}"')

    def _length_of(self, words: tuple[str, ...]) -> int | None:
        """How many tokens these words are, if they stand here."""
        remaining, position = list(words), self.position
        while remaining:
            found = _words(self.tokens[position]) if position < len(self.tokens) else [""]
            if remaining[: len(found)] != found:
                return None
            del remaining[: len(found)]
            position += 1
        return position - self.position

    def string(self) -> str:
        """Step over a string literal and return its value."""
        token = self.current
        if token is None or token.token_type not in (TokenType.STRING, TokenType.RAW_STRING):
            raise self.unexpected("Expected string literal")
        self.position += 1
        return token.text

    def identifier(self) -> str:
        """Step over one name, quoted or not."""
        token = self.current
        is_name = token is not None and (
            token.token_type is TokenType.IDENTIFIER
            or (token.text.replace("_", "a").isalnum() and not token.text[0].isdigit())
        )
        if token is None or not is_name or token.token_type in _LITERALS or self.word() in RESERVED:
            raise self.unexpected("Expected identifier")
        self.position += 1
        return token.text

    def unexpected(self, expectation: str = "") -> InvalidQuery:
        """The error for what stands here."""
        token = self.current
        if token is None:
            found, offset = "end of script", len(self.text)
        else:
            found, offset = describe(token, self.text), token.start
        problem = f"{expectation} but got {found}" if expectation else f"Unexpected {found}"
        return InvalidQuery(f"Syntax error: {problem}", *place(self.text, offset))

    def until(self, *stops: str) -> list[Token]:
        """Step over tokens up to a `;`, the end, or one of the stop words outside brackets and CASE; return them."""
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
