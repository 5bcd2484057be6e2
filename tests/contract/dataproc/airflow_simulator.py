"""The dedup task of the worked example on a remote runner, as testkit.airflow runs it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import from_json
from dedup_clone.orchestration import step
from dedup_clone.orchestration.dag_factory import RetryWhatMayHelp
from dedup_clone.orchestration.runners import dedup
from dedup_clone.orchestration.runners.sizing import Workload
from dedup_clone.orchestration.setup import FeedSetup, find_folders
from dedup_clone.settings.deployment import Deployment, read_deployment
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.spark_settings import ClusterSettings, Runner, SparkSettings, SparkSize
from dedup_clone.state.layout import FeedLayout
from testkit.airflow import SimulatedTask

REPOSITORY = Path(__file__).parents[3]
RETRIES = 9
ATTEMPT = "00000007-abc123"
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
            task = dedup.dedup_step(setup, "dedup_snapshot")
            task.retries, task.retry_policy = RETRIES, RetryWhatMayHelp()
            return task

        super().__init__(operator, RETRIES, pulled=ATTEMPT, tasks=("resolve_publish",), on_failure=self.stop_spark)
        self.setup = setup

    def operator(self) -> Any:
        return self.make_operator()

    def stop_spark(self, context: Any) -> None:
        """What the DAG does when a task has failed."""
        dedup.stop_spark_runs(step.FeedRun(self.setup, context))


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
    attempt = SimpleNamespace(engine=Engine.SPARK, id=ATTEMPT, snapshot_id=7, generation=7, restores=None, uri=REQUEST)
    services = SimpleNamespace(
        log=lambda *_, **__: None,
        manifests=SimpleNamespace(
            attempt=lambda _: attempt,
            find_attempt=lambda _: attempt,
            candidate=lambda _: SimpleNamespace(manifest="a manifest", reused_from=""),
        ),
        layout=FeedLayout("worked_example"),
        store=SimpleNamespace(
            create=lambda name, text: True,
            put=STORED.__setitem__,
            read_record=lambda kind, name: from_json(kind, STORED[name], where=name) if name in STORED else None,
        ),
    )
    monkeypatch.setattr(step, "open_feed_services", lambda setup: services)
    monkeypatch.setattr(dedup, "read_workload", lambda services, attempt: WORK)
