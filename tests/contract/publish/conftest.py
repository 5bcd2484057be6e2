"""Keeps what earlier tests have left from the tests of this folder, and makes a feed for a bootstrap."""

from __future__ import annotations

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from testkit.feed_on_stand_in import FeedOnStandIn
from tests.contract.publish.existing_tables import maintain


@pytest.fixture(autouse=True)
def own_rows(clients: tuple[Storage, BigQuery]) -> None:
    """Delete the rows of earlier tests that the ledger table lacks: the watchdog loads such rows of all feeds."""
    clients[0].bucket("state").delete_blobs(list(clients[0].list_blobs("state", prefix="_reporting/ledger/")))


@pytest.fixture
def maintained(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed whose target was maintained by MERGE statements, for a bootstrap."""
    maintain(world)
    return world
