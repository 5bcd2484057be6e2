"""A world for each test: its own feed on servers that are shared."""

from __future__ import annotations

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.state import reporting_backlog
from dedup_clone.state.feed_status import FOLDER
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.server_clients import shared_clients as shared_clients
from testkit.server_clients import shared_real_dedup as shared_real_dedup
from tests.contract.new_feeds import new_feed
from tests.contract.publish.bootstrap_steps import maintain


@pytest.fixture(autouse=True)
def own_status(clients: tuple[Storage, BigQuery]) -> None:
    """Each publish reads what the reporting tables lack of all feeds, so that of earlier tests is deleted.

    The writer's record stays, because the tables' limits go on from test to test.
    """
    for prefix in (FOLDER, f"{reporting_backlog.FOLDER}ledger/"):
        clients[0].bucket("state").delete_blobs(list(clients[0].list_blobs("state", prefix=prefix)))


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedOnStandIn:
    return FeedOnStandIn(new_feed(), *clients)


@pytest.fixture
def maintained(world: FeedOnStandIn) -> FeedOnStandIn:
    """A world whose target was maintained by MERGE statements, for a bootstrap."""
    maintain(world)
    return world
