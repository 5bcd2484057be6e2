"""Starts the fake services once for the tests of this folder, and makes the dedup task for each runner."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dedup_clone.settings.spark_settings import Runner, SparkSettings, SparkSize
from tests.contract.dataproc.airflow_simulator import SPARK, SimulatedRun, setup_for, without_state
from tests.contract.dataproc.fake.clients import connect_bigquery, connect_hook
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
def simulate(tmp_path: Path) -> Simulate:
    """A function: `simulate(runner)` returns the dedup task on a runner."""
    spark_code = {"main": "gs://code/0a1b/dedup_snapshot.py", "archive": "gs://code/0a1b/dedup_spark.zip"}
    (tmp_path / "spark_code.json").write_text(json.dumps(spark_code))

    def made(runner: str, *, size: SparkSize | None = None, settings: SparkSettings | None = None) -> SimulatedRun:
        kind, default_settings = RUNNERS[runner]
        return SimulatedRun(setup_for(kind, settings or default_settings, size or SparkSize(), tmp_path))

    return made
