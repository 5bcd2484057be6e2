"""One object store and one stand-in for all tests of freshness; each test has a feed of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from tests.contract.publish.conftest import new_feed
from tests.contract.publish.feed_world import FeedWorld
from tests.contract.publish.servers import open_clients


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    with open_clients(tmp_path_factory.mktemp("servers")) as shared:
        yield shared


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedWorld:
    # new_feed numbers feeds per module: a name of this folder's own keeps them apart in one session
    feed = new_feed()
    name = f"fresh_{feed.feed}"
    landing = feed.landing.model_copy(update={"prefix": name})
    return FeedWorld(feed.model_copy(update={"feed": name, "landing": landing}), *clients)
