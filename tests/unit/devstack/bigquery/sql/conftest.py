"""Starts ZetaSQL once for the tests of this folder: Google's grammar and reference implementation of GoogleSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack.zetasql.evaluate import ReferenceEvaluator
from devstack.zetasql.grammar import Grammar
from devstack.zetasql.install import ZetaSqlUnavailable
from devstack.zetasql.zetasql_service import Service, running_service


@pytest.fixture(scope="session")
def zetasql() -> Iterator[Service]:
    try:
        running = running_service()
        service = running.__enter__()
    except ZetaSqlUnavailable as error:
        pytest.skip(str(error))
    try:
        yield service
    finally:
        running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def grammar(zetasql: Service) -> Grammar:
    return Grammar(zetasql)


@pytest.fixture(scope="session")
def reference(zetasql: Service) -> ReferenceEvaluator:
    return ReferenceEvaluator(zetasql)
