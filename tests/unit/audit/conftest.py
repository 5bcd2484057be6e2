"""Google's reference implementation, one for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack.zetasql.evaluate import Oracle, running_oracle
from devstack.zetasql.install import ZetaSqlUnavailable


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    try:
        running = running_oracle()
        oracle = running.__enter__()
    except ZetaSqlUnavailable as error:
        pytest.skip(str(error))
    try:
        yield oracle
    finally:
        running.__exit__(None, None, None)
