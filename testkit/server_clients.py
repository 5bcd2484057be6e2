"""Starts fake-gcs-server and the BigQuery stand-in, with clients of both, also as fixtures, and faults and clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage
from google.oauth2.credentials import Credentials

from bigquery_standin.client import Control
from devstack.http_calls import call
from testkit.local_servers import start_fake_gcs, start_stand_in
from testkit.spark_dedup_process import SparkDedupProcess

PROJECT = "local-dev"
# Permissions that the stand-in grants.
OVERRIDE_TIME_TRAVEL = "bigquery.rowAccessPolicies.overrideTimeTravelRestrictions"
FINE_GRAINED_READ = "datacatalog.categories.fineGrainedGet"
# The local servers ask for no credentials.
_ANONYMOUS = AnonymousCredentials()  # type: ignore[no-untyped-call]


def bigquery_client(url: str, user: str | None = None) -> BigQuery:
    """A new client of the stand-in at `url`. `user`: the email address of the caller; None to send no token."""
    credentials: Any = _ANONYMOUS if user is None else Credentials(user)  # type: ignore[no-untyped-call]
    return BigQuery(project=PROJECT, credentials=credentials, client_options=ClientOptions(api_endpoint=url))


def control_of(bigquery: BigQuery) -> Control:
    """The control of the stand-in to which the client talks."""
    return Control(str(bigquery._connection.API_BASE_URL))


def empty_buckets(storage: Storage) -> None:
    """Delete all objects. An upload to fake-gcs-server takes the longer, the more objects its memory has."""
    buckets = [bucket.name for bucket in storage.list_buckets()]
    assert call("POST", f"{storage._connection.API_BASE_URL}/_internal/delete_all").ok  # deletes the buckets, too
    for name in buckets:
        storage.create_bucket(name)


@contextmanager
def open_clients(folder: Path, *options: str) -> Iterator[tuple[Storage, BigQuery]]:
    """Run both servers, the stand-in with `options`, until the end of the block, and yield a client of each.

    The servers have the buckets landing and state and the dataset warehouse. The tables and logs are below `folder`,
    objects are in memory.
    """
    with (
        start_fake_gcs(folder, "landing", "state") as gcs,
        start_stand_in(folder, gcs, *options) as bigquery,
    ):
        objects = ClientOptions(api_endpoint=f"http://{gcs}")
        storage = Storage(project=PROJECT, credentials=_ANONYMOUS, client_options=objects)
        warehouse = bigquery_client(f"http://{bigquery}")
        warehouse.create_dataset("warehouse")
        yield storage, warehouse


@pytest.fixture(scope="session", name="session_clients")
def clients_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    """Clients of the servers behind `clients`.

    Each commit loads a row into the ledger table of all feeds, more often than BigQuery allows for one table.
    """
    with open_clients(tmp_path_factory.mktemp("servers"), "--updates-per-10-s", "1000") as shared:
        yield shared


@pytest.fixture(name="clients")
def shared_clients(session_clients: tuple[Storage, BigQuery]) -> tuple[Storage, BigQuery]:
    """Clients of one pair of servers, shared by all tests of a folder whose conftest imports this fixture.

    Each test starts with empty buckets, and with no tables but the reporting tables of all feeds.
    """
    storage, bigquery = session_clients
    empty_buckets(storage)
    for table in bigquery.list_tables("warehouse"):
        if not table.table_id.startswith("dedup_clone_"):
            bigquery.delete_table(table.reference)
    return session_clients


@pytest.fixture(scope="session", name="real_dedup")
def shared_real_dedup(session_clients: tuple[Storage, BigQuery]) -> Iterator[SparkDedupProcess]:
    """The Spark job on the servers of `clients`, in one process for all tests that share this fixture."""
    with SparkDedupProcess(session_clients[0]) as shared:
        yield shared


class ControlledStandIn:
    """A client of the stand-in (`bigquery`), and its control."""

    def __init__(self, bigquery: BigQuery) -> None:
        self.bigquery = bigquery
        self.control = control_of(bigquery)
        self._began = datetime.now(UTC)

    def pass_time(self, duration: timedelta) -> None:
        self.control.advance(seconds=duration.total_seconds())

    def add_fault(self, fault: dict[str, Any]) -> None:
        self.control.add_fault(**fault)

    def clear_faults(self) -> None:
        self.control.clear_faults()

    def fail_jobs(self, job_id: str, *, times: int = 1, reason: str = "backendError", **fault: Any) -> None:
        """Let each of the next `times` BigQuery jobs fail whose id matches the regular expression `job_id`."""
        self.add_fault({"match": {"job_id": job_id}, "effect": "error", "times": times, "reason": reason, **fault})

    def delay_jobs(self, job_id: str, seconds: float, *, times: int = 1) -> None:
        """Delay each of the next `times` BigQuery jobs whose id matches the regular expression `job_id`."""
        self.add_fault({"match": {"job_id": job_id}, "effect": "delay", "seconds": seconds, "times": times})

    def jobs(self) -> list[Any]:
        """The BigQuery jobs since the test began, newest first. Earlier tests have left thousands."""
        return list(self.bigquery.list_jobs(min_creation_time=self._began))

    def wait_for_all_jobs(self) -> None:
        """Wait until no BigQuery job is pending or runs. Polls states, because `job.result` would retry failed jobs."""
        # In this order no job is missed: a pending job that starts before the first request is in the second list.
        for state in ("pending", "running"):
            for job in self.bigquery.list_jobs(state_filter=state):
                while self.bigquery.get_job(job.job_id, location=job.location).state != "DONE":
                    time.sleep(0.02)
