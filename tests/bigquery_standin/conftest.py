"""A stand-in for each test, one that all tests share for reading, and Google's own implementation of GoogleSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devstack.zetasql.install import ZetaSqlUnavailable
from devstack.zetasql.service import ZetaSql, running_zetasql
from tests.bigquery_standin.warehouse import Warehouse


@pytest.fixture
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """A stand-in with an empty dataset `d`."""
    found = Warehouse(tmp_path_factory.mktemp("stand_in"))
    found.client.create_dataset("d")
    yield found
    found.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A stand-in with an empty dataset `d`, for queries that change nothing."""
    found = Warehouse(tmp_path_factory.mktemp("stand_in"))
    found.client.create_dataset("d")
    return found


@pytest.fixture(scope="session")
def zetasql() -> Iterator[ZetaSql]:
    try:
        running = running_zetasql()
        service = running.__enter__()
    except ZetaSqlUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    try:
        yield service
    finally:
        running.__exit__(None, None, None)
