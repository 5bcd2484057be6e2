"""Makes a feed for each test of this folder, on servers that all of them share.

The tests call it `world`: the feed with its tables, records and landed files.
"""

from __future__ import annotations

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.server_clients import shared_clients as shared_clients
from testkit.server_clients import shared_real_dedup as shared_real_dedup
from tests.contract.new_feeds import new_feed
from tests.contract.publish.existing_tables import maintain


@pytest.fixture(autouse=True)
def own_rows(clients: tuple[Storage, BigQuery]) -> None:
    """Delete the rows of earlier tests that the ledger table lacks: the watchdog loads such rows of all feeds."""
    clients[0].bucket("state").delete_blobs(list(clients[0].list_blobs("state", prefix="_reporting/ledger/")))


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedOnStandIn:
    return FeedOnStandIn(new_feed(), *clients)


@pytest.fixture
def maintained(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed whose target was maintained by MERGE statements, for a bootstrap."""
    maintain(world)
    return world
