"""Starts the local servers, with clients whose requests and answers a test may change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery, storage

from dedup_clone.warehouse.append_connection import ADDRESS_VARIABLE
from deploy.probe.probe_dataset import Clients
from testkit.local_servers import start_fake_gcs, start_stand_in
from tests.contract.probe.broken_session import BrokenSession
from tests.shared.stand_in_client import Control


@pytest.fixture(scope="module")
def session() -> BrokenSession:
    return BrokenSession()


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory, session: BrokenSession) -> Iterator[Clients]:
    def options(address: str) -> dict[str, object]:
        place = {"api_endpoint": f"http://{address}"}
        return {
            "project": "local-dev",
            "credentials": AnonymousCredentials(),
            "_http": session,
            "client_options": place,
        }

    with (
        start_fake_gcs(tmp_path_factory.mktemp("gcs")) as gcs,
        start_stand_in(tmp_path_factory.mktemp("stand_in"), gcs) as warehouse,
        pytest.MonkeyPatch.context() as environment,
    ):
        health = requests.get(f"http://{warehouse}/_standin/health", timeout=30).json()
        environment.setenv(ADDRESS_VARIABLE, health["write_api"])
        yield Clients(
            bigquery.Client(**options(warehouse)),
            storage.Client(**options(gcs)),
            "local-dev",
            "US",
            "the stand-in",
            "projects/local-dev/locations/us/taxonomies/1/policyTags/2",
            lambda seconds: Control(warehouse).advance(seconds=seconds),
        )
