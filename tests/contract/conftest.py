"""One pair of servers for all tests below this folder, and a feed for each test, which it calls `world`.

In each test the requests to BigQuery and Cloud Storage must agree with Google's descriptions: the stand-in and
fake-gcs-server may accept fields that the services do not have.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.server_clients import clients_of_session as clients_of_session
from testkit.server_clients import shared_clients as shared_clients
from testkit.server_clients import shared_real_dedup as shared_real_dedup
from tests.contract.new_feeds import new_feed
from tests.request_validator import RequestValidator
from tests.request_validator import request_validator as request_validator


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedOnStandIn:
    """A new feed, with its tables, records and landed files."""
    return FeedOnStandIn(new_feed(), *clients)


@pytest.fixture(autouse=True)
def requests_are_well_formed(request_validator: RequestValidator) -> Iterator[None]:
    request_validator.faults.clear()
    yield
    assert request_validator.faults == []
