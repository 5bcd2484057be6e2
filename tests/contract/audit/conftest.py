"""Starts one fake-gcs-server and one stand-in for the tests of this folder, and makes a feed for each test."""

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
