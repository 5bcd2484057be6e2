"""Is this text GoogleSQL? Google's own parser answers, for one statement or a whole script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from devstack.zetasql.errors import ZetaSqlUnavailable
from devstack.zetasql.service import Service, running_service

_LOCATED = re.compile(r"(?P<message>.*?)\s*\[at (?P<line>\d+):(?P<column>\d+)\]\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class GrammarError:
    """Line and column count from 1; 0 where the parser names no place."""

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
            return _refusal(error)
        return None


def _refusal(error: grpc.RpcError) -> GrammarError:
    details = str(error.details())
    if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
        raise ZetaSqlUnavailable(f"ZetaSQL answered [{error.code()}] to a Parse call: [{details}].") from error
    located = _LOCATED.match(details)
    if located is None:
        return GrammarError(0, 0, details)
    return GrammarError(int(located["line"]), int(located["column"]), located["message"])


@contextmanager
def running_grammar() -> Iterator[Grammar]:
    """A grammar to check with, its service started now and stopped at the end."""
    with running_service() as service:
        yield Grammar(service)
