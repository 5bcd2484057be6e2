"""Starts fake-gcs-server and the stand-in for the tests of this folder, with Google's clients of both."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery, storage

from testkit.local_servers import start_fake_gcs, start_stand_in
from tests.shared.stand_in_client import BUCKET, PROJECT, bigquery_client


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_fake_gcs(tmp_path_factory.mktemp("gcs")) as address:
        yield address


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory, object_store: str) -> Iterator[str]:
    """A stand-in for each test file. Some tests advance its clock, and so perhaps the date that other tests rely on."""
    folder = tmp_path_factory.mktemp("stand_in")
    with start_stand_in(folder, object_store) as address:
        yield address


@pytest.fixture(scope="module")
def client(stand_in: str) -> bigquery.Client:
    return bigquery_client(stand_in)


@pytest.fixture(scope="session")
def bucket(object_store: str) -> storage.Bucket:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", f"http://{object_store}")
        return storage.Client(project=PROJECT, credentials=AnonymousCredentials()).create_bucket(BUCKET)


@pytest.fixture
def dataset(client: bigquery.Client) -> str:
    """A dataset of the test's own."""
    name = f"d{uuid.uuid4().hex[:12]}"
    client.create_dataset(name)
    return name
