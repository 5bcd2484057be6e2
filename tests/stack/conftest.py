"""One real stack for the session: fake-gcs-server, the stand-in and Airflow, in a folder of its own, always stopped.

It runs behind the holding proxies of the long runs, so that a test can hold a request.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.proxied_stack import ProxiedStack, running_stack
from testkit.stack_client import StackClient
from testkit.waiting import wait_for
from tests.stack.extra_feeds import BOUNDED, ENDED_BADLY, HELD_BACK, SLOWED, add_feeds


@pytest.fixture(scope="session")
def proxied_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedStack]:
    with running_stack(tmp_path_factory.mktemp("stack") / "local", all_feeds=True, prepare_dags=add_feeds) as stack:
        yield stack


@pytest.fixture(scope="session")
def stack(proxied_stack: ProxiedStack) -> StackClient:
    local = StackClient(proxied_stack.layout.local)
    feeds = (SLOWED, HELD_BACK, BOUNDED, *ENDED_BADLY)
    extra = [f"{feed}_{dag}" for feed in feeds for dag in ("watch", "publish", "rollback")]
    wait_for(lambda: all(local.airflow.is_paused(dag) is False for dag in extra), f"Airflow knows {extra}")
    return local
