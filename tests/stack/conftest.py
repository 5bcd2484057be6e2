"""One real stack for the session: fake-gcs-server, the stand-in and Airflow, in a folder of its own, always stopped.

It stands behind the gates of the long runs, so that a test can hold a request; those that hold none notice nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from soak.stack import SoakStack, running
from tests.stack.extra_feeds import BOUNDED, HELD_BACK, SLOWED, add_feeds
from tests.stack.local_stack import LocalStack, wait_for

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def gated_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoakStack]:
    with running(tmp_path_factory.mktemp("stack") / "local", all_feeds=True, prepare=add_feeds) as stack:
        yield stack


@pytest.fixture(scope="session")
def stack(gated_stack: SoakStack) -> LocalStack:
    local = LocalStack(REPOSITORY, gated_stack.layout.local)
    extra = [f"{feed}_{dag}" for feed in (SLOWED, HELD_BACK, BOUNDED) for dag in ("watch", "publish", "rollback")]
    wait_for(lambda: all(local.airflow.is_paused(dag) is False for dag in extra), f"Airflow knows {extra}")
    return local
