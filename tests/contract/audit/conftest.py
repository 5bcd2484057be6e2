"""One object store and one stand-in for all audits; each test has a feed of its own."""

from __future__ import annotations

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.server_clients import shared_clients as shared_clients
from tests.contract.new_feeds import new_feed


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedOnStandIn:
    return FeedOnStandIn(new_feed("audit_"), *clients)
