"""One object store and one stand-in for all tests of freshness; each test has a feed of its own."""

from __future__ import annotations

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from tests.contract.publish.conftest import new_feed
from tests.contract.publish.feed_world import FeedWorld
from tests.contract.publish.servers import shared_clients as shared_clients


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedWorld:
    return FeedWorld(new_feed("fresh_"), *clients)
