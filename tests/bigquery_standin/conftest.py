"""A stand-in for each test, and one that all tests share for reading."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
