"""The dedup task of the worked example on a remote runner, as testkit.airflow runs it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import from_json
from dedup_clone.orchestration.retries import RetryWhatMayHelp
from dedup_clone.orchestration.runners import dedup_operator, engine_dispatch, remote_operator
from dedup_clone.orchestration.runners.workload import Workload
from dedup_clone.orchestration.setup import FeedSetup, find_folders
from dedup_clone.settings.deployment import Deployment, read_deployment
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.spark_settings import ClusterSettings, Runner, SparkSettings, SparkSize
from dedup_clone.state.layout import FeedLayout
from testkit.airflow import SimulatedTask

REPOSITORY = Path(__file__).parents[3]
RETRIES = 9
REQUEST = "gs://state/worked_example/attempts/00000007-abc123/attempt.json"
SPARK = SparkSettings(
    region="europe-west1",
    service_account="spark@my-project.iam.gserviceaccount.com",
    subnetwork="spark",
    network_tags=("spark",),
    staging_bucket="my-project-staging",
    cluster=ClusterSettings(name="shared"),
    procedure_connection="my-project.eu.spark",
    labels={"team": "data"},
)
WORK = Workload(deliveries=1, delivered_bytes=10**9, newest_rows=10**8, older_rows=0, parent_rows=10**8, dates=13)


class SimulatedRun(SimulatedTask):
    """The dedup task of a run of the publish DAG. If it fails for good, Spark is stopped, as the DAG does."""

    def __init__(self, setup: FeedSetup) -> None:
        def operator() -> Any:
            retries = {"retries": RETRIES, "retry_policy": RetryWhatMayHelp()}
            return dedup_operator(setup, task_id="dedup_snapshot", request_uri=REQUEST, **retries)

        super().__init__(
            operator,
            RETRIES,
            pulled="00000007-abc123",
            tasks=("resolve_publish",),
            on_failure=remote_operator.stop_spark_runs,
        )

    def operator(self) -> Any:
        return self.make_operator()


def setup_for(runner: Runner, settings: SparkSettings, size: SparkSize, dags: Path) -> FeedSetup:
    """The setup of the worked example with this runner. `dags`: the folder of spark_code.json, which names the code."""
    deployment, shipped = _shipped()
    quick = deployment.model_copy(update={"spark": settings, "job_poll_interval_s": 0.001, "runner": runner})
    feed = shipped.model_copy(update={"spark": size})
    folders = find_folders(REPOSITORY / "dags")
    return FeedSetup(feed, quick, type(folders)(**{**vars(folders), "spark_code": dags / "spark_code.json"}))


@cache
def _shipped() -> tuple[Deployment, Feed]:
    """The shipped profile and feed, read only once, because there are hundreds of simulated runs."""
    dags = REPOSITORY / "dags"
    deployment = read_deployment(dags / "profiles", {"DEDUP_CLONE_PROFILE": "gcp"})
    return deployment, read_feed(dags / "feeds" / "worked_example.yaml")


STORED: dict[str, str] = {}  # the objects that tasks wrote to the state bucket: text by name


def without_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the task an attempt and a workload, so that it reads nothing from the state bucket."""
    STORED.clear()
    attempt = SimpleNamespace(engine=Engine.SPARK, id="00000007-abc123", snapshot_id=7, generation=7)
    services = SimpleNamespace(
        log=lambda *_, **__: None,
        manifests=SimpleNamespace(candidate=lambda attempt: SimpleNamespace(manifest="a manifest", reused_from="")),
        layout=FeedLayout("worked_example"),
        store=SimpleNamespace(
            create=lambda name, text: True,
            put=STORED.__setitem__,
            read_record=lambda kind, name: from_json(kind, STORED[name], where=name) if name in STORED else None,
        ),
    )
    monkeypatch.setattr(engine_dispatch, "open_feed_services", lambda setup: services)
    monkeypatch.setattr(engine_dispatch, "pull_attempt", lambda context, services: attempt)
    monkeypatch.setattr(remote_operator, "pull_attempt", lambda context, services: attempt)
    monkeypatch.setattr(remote_operator, "open_feed_services", lambda setup: services)
    monkeypatch.setattr(remote_operator, "read_workload", lambda services, attempt: WORK)
