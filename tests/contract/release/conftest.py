"""Makes a small repository and two buckets for each test of a release."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from dedup_clone.state.store import ObjectStore
from deploy.release.release import Release
from deploy.release.release_content import make_release
from testkit.local_servers import REPOSITORY, start_fake_gcs


class Buckets:
    """The environment's bucket and the state bucket, new ones for each test."""

    def __init__(self, client: storage.Client, suffix: str) -> None:
        self.client = client
        self.environment = ObjectStore(client, f"environment{suffix}")
        self.state = ObjectStore(client, f"state{suffix}")
        for store in (self.environment, self.state):
            client.create_bucket(store.bucket)

    def names(self) -> set[str]:
        return {store.uri(info.name) for store in (self.environment, self.state) for info in store.objects("")}


class ReleaseSetup:
    """A repository to release from, and the buckets that a release writes."""

    def __init__(self, repository: Path, buckets: Buckets) -> None:
        self.repository = repository
        self.buckets = buckets

    def release(self) -> Release:
        """A release of what the repository contains now."""
        buckets = {
            "environment_bucket": self.buckets.environment.bucket,
            "state_bucket": self.buckets.state.bucket,
        }
        return Release(make_release(self.repository, **buckets), self.buckets.client, **buckets)

    def deploy(self, *, take_over: bool = False) -> list[tuple[str, str]]:
        """Plan a release and apply it. Returns the action and the URI of each change."""
        release = self.release()
        plan = release.plan()
        release.apply(plan, take_over=take_over)
        return [(str(change.action), change.uri) for change in plan.changes]


@pytest.fixture(scope="session")
def storage_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_fake_gcs(tmp_path_factory.mktemp("gcs")) as address:
        yield address


@pytest.fixture
def buckets(storage_address: str, request: pytest.FixtureRequest) -> Buckets:
    client = storage.Client(
        project="local-dev",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": f"http://{storage_address}"},
    )
    return Buckets(client, f"-{abs(hash(request.node.name)):x}"[:20])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of what is shipped, which a test may edit. Most of the library is left out, to save time."""
    for folder in ("dags", "plugins", "sql", "spark_jobs"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for package in ("checks", "freshness", "orchestration", "page", "publish", "state"):
        shutil.rmtree(tmp_path / "plugins" / "dedup_clone" / package)
    return tmp_path


@pytest.fixture
def setup(repository: Path, buckets: Buckets) -> ReleaseSetup:
    return ReleaseSetup(repository, buckets)
