"""Starts fake-gcs-server for the tests of this folder, and makes a landing and a state bucket for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from dedup_clone.state.arrivals import Arrivals
from dedup_clone.state.landing import Landing
from dedup_clone.state.store import ObjectStore
from testkit.local_servers import start_fake_gcs

FEED = "feed"


@dataclass(frozen=True)
class Buckets:
    """The buckets of one test."""

    client: Client
    landing_bucket: str
    state_bucket: str

    @property
    def landing(self) -> Landing:
        return Landing(ObjectStore(self.client, self.landing_bucket), FEED, "_SUCCESS")

    @property
    def state(self) -> ObjectStore:
        return ObjectStore(self.client, self.state_bucket)

    @property
    def arrivals(self) -> Arrivals:
        return Arrivals(self.state, FEED)

    def put(self, *names: str) -> None:
        """Upload empty objects to landing. `names`: below the feed's folder."""
        for name in names:
            self.client.bucket(self.landing_bucket).blob(f"{FEED}/{name}").upload_from_string(b"")


@pytest.fixture(scope="session")
def storage_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with start_fake_gcs(Path(tmp_path_factory.mktemp("storage"))) as address:
        yield Client(
            project="local-dev",
            credentials=AnonymousCredentials(),
            client_options=ClientOptions(api_endpoint=f"http://{address}"),
        )


@pytest.fixture
def buckets(storage_client: Client, request: pytest.FixtureRequest) -> Buckets:
    number = f"{abs(hash(request.node.nodeid)):x}"
    names = f"landing-{number}", f"state-{number}"
    for name in names:
        storage_client.create_bucket(name)
    return Buckets(storage_client, *names)
