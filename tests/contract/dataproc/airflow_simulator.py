"""Simulates how Airflow runs the dedup task: with tries, deferrals, triggers and killed processes.

As in Airflow, each try and each resumption after a deferral gets a new operator object.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.base import BaseTrigger, TriggerEvent

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import from_json
from dedup_clone.orchestration.runners import dedup_operator, engine_dispatch, remote_operator
from dedup_clone.orchestration.runners.spark_run_trigger import SparkRunTrigger
from dedup_clone.orchestration.runners.workload import Workload
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.orchestration.shared.retries import retry_arguments
from dedup_clone.orchestration.shared.task_runtime import RESOLVE_PUBLISH
from dedup_clone.settings.deployment import Deployment, read_deployment
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.spark_settings import ClusterSettings, Runner, SparkSettings, SparkSize
from dedup_clone.state.layout import FeedLayout
from tests.contract.dataproc.fake.faults import WorkerKilled
from tests.shared.task_api import dag_run

REPOSITORY = Path(__file__).parents[3]
RETRIES = retry_arguments(timedelta(hours=1))["retries"]
REQUEST = "gs://state/worked_example/attempts/00000007-abc123/request.json"
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
OWN_CLUSTER = SPARK.model_copy(update={"cluster": ClusterSettings()})
WORK = Workload(deliveries=1, delivered_bytes=10**9, newest_rows=10**8, older_rows=0, parent_rows=10**8, dates=13)


@dataclass
class SimulatedRun:
    """The dedup task of one DAG run.

    `clear_number`: how often the run was cleared. `tries`: the number of tries since then. `errors`: those of its
    tries. `result`: what the task returned. `state`: "none", "success" or "failed".
    """

    setup: FeedSetup
    clear_number: int = 0
    tries: int = 0
    xcoms: dict[str, Any] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    result: Any = None
    state: str = "none"

    def run(self) -> SimulatedRun:
        """Run the task until it succeeds or has no try left. If it fails, stop Spark, as the DAG does."""
        self.tries = 0
        while self.tries < RETRIES + 1:
            self.tries += 1
            try:
                self.result, self.state = self.run_try(), "success"
                return self
            except AirflowFailException as error:
                self.errors.append(error)
                break
            except (Exception, WorkerKilled) as error:
                self.errors.append(error)
        self.state = "failed"
        remote_operator.stop_spark_runs(self.operator(), self.context())
        return self

    def run_try(self) -> Any:
        """Run one try, with all its deferrals. Returns the task's result."""
        try:
            return self.operator().execute(self.context())
        except TaskDeferred as deferred:
            return self.resume(deferred)

    def resume(self, deferred: TaskDeferred) -> Any:
        while True:
            event = asyncio.run(self.run_trigger(self.recreated(deferred.trigger)))
            try:
                return getattr(self.operator(), deferred.method_name)(self.context(), event.payload)
            except TaskDeferred as again:
                deferred = again

    async def run_trigger(self, trigger: BaseTrigger) -> TriggerEvent:
        """The trigger's event. If the triggerer is killed, another one starts with the stored trigger."""
        while True:
            try:
                return await anext(aiter(trigger.run()))
            except WorkerKilled:
                trigger = self.recreated(trigger)

    def recreated(self, trigger: BaseTrigger) -> SparkRunTrigger:
        """The trigger that a triggerer makes from what Airflow has stored of it."""
        path, kwargs = trigger.serialize()
        assert path == "dedup_clone.orchestration.runners.spark_run_trigger.SparkRunTrigger"
        return SparkRunTrigger(**kwargs)

    def deferral(self) -> TaskDeferred:
        """Run the task's next try until it is deferred, and return the deferral."""
        self.tries += 1
        with pytest.raises(TaskDeferred) as deferred:
            self.operator().execute(self.context())
        return deferred.value

    def operator(self) -> Any:
        task = dedup_operator(self.setup, task_id="dedup_snapshot", request_uri=REQUEST, retries=RETRIES)
        return task

    def context(self) -> Any:
        ti = SimpleNamespace(
            try_number=self.tries,
            xcom_push=lambda key, value: self.xcoms.__setitem__(key, value),
            xcom_pull=lambda **_: "a spec",
        )
        dag = SimpleNamespace(has_task=lambda name: name == RESOLVE_PUBLISH)
        return {"ti": ti, "dag": dag, "dag_run": dag_run("publish", "run", clear_number=self.clear_number)}

    @property
    def error(self) -> str:
        return str(self.errors[-1])


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
    """Give the task a publish spec and a workload, so that it reads nothing from the state bucket."""
    STORED.clear()
    spec = SimpleNamespace(engine=Engine.SPARK, attempt="00000007-abc123", snapshot_id=7, generation=7)
    services = SimpleNamespace(
        log=lambda *_, **__: None,
        manifests=SimpleNamespace(candidate=lambda attempt: SimpleNamespace(manifest="a manifest", reused_from="")),
        layout=FeedLayout("worked_example"),
        store=SimpleNamespace(
            create=lambda name, text: True,
            put=STORED.__setitem__,
            read_if_sound=lambda kind, name: from_json(kind, STORED[name], where=name) if name in STORED else None,
        ),
    )
    monkeypatch.setattr(engine_dispatch, "open_feed_services", lambda setup: services)
    monkeypatch.setattr(engine_dispatch, "pull_spec", lambda context: spec)
    monkeypatch.setattr(remote_operator, "pull_spec", lambda context: spec)
    monkeypatch.setattr(remote_operator, "open_feed_services", lambda setup: services)
    monkeypatch.setattr(remote_operator, "read_workload", lambda services, attempt: WORK)
