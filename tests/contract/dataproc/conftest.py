"""Starts the fake services once for the tests of this folder, connects Airflow's hooks to them, and makes the task."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
from airflow.providers.google.cloud.hooks.dataproc import DataprocHook
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.bigquery import Client
from google.cloud.dataproc_v1 import BatchControllerClient, JobControllerClient
from google.cloud.dataproc_v1.services.batch_controller.transports import BatchControllerGrpcTransport
from google.cloud.dataproc_v1.services.job_controller.transports import JobControllerGrpcTransport

from dedup_clone.orchestration.runners import open_runner
from dedup_clone.settings.spark_settings import Runner, SparkSettings, SparkSize
from testkit.airflow import ProcessKilled
from tests.contract.dataproc.airflow_simulator import SPARK, SimulatedRun, setup_for, without_state
from tests.contract.dataproc.fake.faults import KILLED
from tests.contract.dataproc.fake.procedures import FakeProcedures
from tests.contract.dataproc.fake.service_state import FakeCluster
from tests.contract.dataproc.fake.services import FakeDataproc

Fake = FakeDataproc | FakeProcedures
RUNNERS: dict[str, tuple[Runner, SparkSettings]] = {
    "serverless": (Runner.SERVERLESS, SPARK),
    "cluster": (Runner.CLUSTER, SPARK),
    "procedure": (Runner.BIGQUERY_PROCEDURE, SPARK),
}
Simulate = Callable[..., SimulatedRun]


class _Killing(grpc.UnaryUnaryClientInterceptor):
    """Raises ProcessKilled in the caller if the fake's error says that the caller is killed."""

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        call = continuation(details, request)
        if call.exception() is not None and call.details() == KILLED:
            raise ProcessKilled
        return call


def connect_hook(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Airflow's Dataproc hook connect its clients to the fake at `address`, host:port."""
    channel = grpc.intercept_channel(grpc.insecure_channel(address), _Killing())

    def opening(client: Any, transport: Any) -> Callable[..., Any]:
        return lambda self, region=None: client(transport=transport(channel=channel))

    monkeypatch.setattr(DataprocHook, "__init__", lambda self, **_: None)
    monkeypatch.setattr(DataprocHook, "get_batch_client", opening(BatchControllerClient, BatchControllerGrpcTransport))
    monkeypatch.setattr(DataprocHook, "get_job_client", opening(JobControllerClient, JobControllerGrpcTransport))


class _KillingSession(AuthorizedSession):
    """Raises ProcessKilled as _Killing does, for clients over HTTP."""

    def request(self, *args: Any, **kwargs: Any) -> Any:
        response = super().request(*args, **kwargs)
        if not response.ok and KILLED in response.text:
            raise ProcessKilled
        return response


def connect_bigquery(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Airflow's BigQuery hook connect its client to the fake at `address`, a URL."""

    def open_client(self: Any, *, project_id: str, location: str) -> Client:
        return Client(
            project=project_id,
            location=location,
            _http=_KillingSession(AnonymousCredentials()),
            client_options=ClientOptions(api_endpoint=address),
        )

    monkeypatch.setattr(BigQueryHook, "__init__", lambda self, **_: None)
    monkeypatch.setattr(BigQueryHook, "get_client", open_client)


@pytest.fixture(scope="session")
def dataproc() -> Iterator[FakeDataproc]:
    server = FakeDataproc()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def procedures() -> Iterator[FakeProcedures]:
    server = FakeProcedures()
    yield server
    server.stop()


@pytest.fixture
def fakes(dataproc: FakeDataproc, procedures: FakeProcedures, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Fake]:
    """A function: `fakes(runner)` returns the fake service of a runner, with a new state.

    Keyword arguments are fields of ServiceState.
    """
    connect_hook(dataproc.address, monkeypatch)
    connect_bigquery(procedures.address, monkeypatch)
    without_state(monkeypatch)

    def renewed(runner: str, **state: object) -> Fake:
        fake: Fake = procedures if runner == "procedure" else dataproc
        fake.reset(**state)
        fake.state.clusters["shared"] = FakeCluster("shared")
        return fake

    return renewed


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """A function: `simulate(runner)` returns the dedup task on a runner. Its triggers do not pause between polls."""
    monkeypatch.setattr(open_runner, "asyncio", SimpleNamespace(sleep=lambda seconds: asyncio.sleep(0)))
    spark_code = {"main": "gs://code/0a1b/dedup_snapshot.py", "archive": "gs://code/0a1b/dedup_spark.zip"}
    (tmp_path / "spark_code.json").write_text(json.dumps(spark_code))

    def made(runner: str, *, size: SparkSize | None = None, settings: SparkSettings | None = None) -> SimulatedRun:
        kind, default_settings = RUNNERS[runner]
        return SimulatedRun(setup_for(kind, settings or default_settings, size or SparkSize(), tmp_path))

    return made
