"""Checks with Google's parser whether a statement or script is GoogleSQL."""

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
    """Line and column start at 1. They are 0 when the parser names no position."""

    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}"


@dataclass(frozen=True)
class Grammar:
    service: Service

    def check(self, sql: str) -> GrammarError | None:
        """None when Google's parser accepts the text."""
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
    """A grammar whose service runs until the end of the block."""
    with running_service() as service:
        yield Grammar(service)
