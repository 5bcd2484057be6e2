"""The fake services, one server for all tests, a new world for each; and the task on each of the runners."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dedup_clone.settings.spark import Runner, SparkSettings, SparkSize
from tests.contract.dataproc.airflow_play import OWN_CLUSTER, SPARK, Play, setup_for, without_state
from tests.contract.dataproc.fake.clients import connect_bigquery, connect_hook
from tests.contract.dataproc.fake.procedures import FakeProcedures
from tests.contract.dataproc.fake.services import FakeDataproc
from tests.contract.dataproc.fake.world import FakeCluster

Fake = FakeDataproc | FakeProcedures
RUNNERS: dict[str, tuple[Runner, SparkSettings]] = {
    "serverless": (Runner.SERVERLESS, SPARK),
    "cluster": (Runner.CLUSTER, SPARK),
    "own_cluster": (Runner.CLUSTER, OWN_CLUSTER),
    "procedure": (Runner.BIGQUERY_PROCEDURE, SPARK),
}
MakePlay = Callable[..., Play]


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
    """The fake that serves a runner, with a new world: `fakes(runner)`."""
    connect_hook(dataproc.address, monkeypatch)
    connect_bigquery(procedures.address, monkeypatch)
    without_state(monkeypatch)

    def renewed(runner: str, **world: object) -> Fake:
        fake: Fake = procedures if runner == "procedure" else dataproc
        fake.reset(**world)
        fake.world.clusters["standing"] = FakeCluster("standing", looks_left=0, state="RUNNING")
        return fake

    return renewed


@pytest.fixture
def play(tmp_path: Path) -> MakePlay:
    """The task on a runner: `play(runner)`."""
    note = {"main": "gs://code/0a1b/dedup_snapshot.py", "archive": "gs://code/0a1b/dedup_spark.zip"}
    (tmp_path / "spark_code.json").write_text(json.dumps(note))

    def made(runner: str, *, size: SparkSize | None = None, settings: SparkSettings | None = None, **kw: int) -> Play:
        kind, usual = RUNNERS[runner]
        return Play(setup_for(kind, settings or usual, size or SparkSize(), tmp_path), **kw)

    return made
