"""Starts Google's reference implementation of GoogleSQL once for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devstack.zetasql.evaluate import ReferenceEvaluator, running_evaluator
from devstack.zetasql.install import ZetaSqlUnavailable


@pytest.fixture(scope="session")
def reference() -> Iterator[ReferenceEvaluator]:
    try:
        running = running_evaluator()
        evaluator = running.__enter__()
    except ZetaSqlUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    try:
        yield evaluator
    finally:
        running.__exit__(None, None, None)
