"""Checks with ZetaSQL, which has Google's parser, whether a statement or script is valid GoogleSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from devstack.zetasql.install import ZetaSqlUnavailable
from devstack.zetasql.zetasql_service import Service, running_service

_LOCATED = re.compile(r"(?P<message>.*?)\s*\[at (?P<line>\d+):(?P<column>\d+)\]\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class GrammarError:
    """A syntax error. Line and column are counted from 1; both are 0 if the parser names no position."""

    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}"


@dataclass(frozen=True)
class Grammar:
    """Checks SQL texts with a running ZetaSQL service."""

    service: Service

    def check(self, sql: str) -> GrammarError | None:
        """The first syntax error; None if the parser accepts the text. Raises ZetaSqlUnavailable after other errors."""
        request = self.service.messages.ParseRequest(
            sql_statement=sql, options=self.service.language, allow_script=True
        )
        try:
            self.service.stub.Parse(request)
        except grpc.RpcError as error:
            return _to_grammar_error(error)
        return None


def _to_grammar_error(error: grpc.RpcError) -> GrammarError:
    details = str(error.details())
    if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
        raise ZetaSqlUnavailable(f"ZetaSQL answered [{error.code()}] to a Parse call: [{details}].") from error
    located = _LOCATED.match(details)
    if located is None:
        return GrammarError(0, 0, details)
    return GrammarError(int(located["line"]), int(located["column"]), located["message"])


@contextmanager
def running_grammar() -> Iterator[Grammar]:
    """Yield a grammar, whose ZetaSQL service runs until the end of the `with` block."""
    with running_service() as service:
        yield Grammar(service)
