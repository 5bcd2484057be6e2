"""Runs the dedup task of the worked example on a remote runner, as Airflow does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.base import BaseTrigger, TriggerEvent

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import from_json
from dedup_clone.orchestration import step
from dedup_clone.orchestration.dag_factory import RetryWhatMayHelp
from dedup_clone.orchestration.runners import dedup
from dedup_clone.orchestration.runners.sizing import Workload
from dedup_clone.orchestration.setup import FeedSetup, find_folders
from dedup_clone.settings.deployment import Deployment, read_deployment
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.spark_settings import Runner, SparkSettings, SparkSize
from dedup_clone.state.layout import FeedLayout
from testkit.airflow import ProcessKilled, dag_run, judged, recreated

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
    cluster="shared",
    procedure_connection="my-project.eu.spark",
    labels={"team": "data"},
)
WORK = Workload(deliveries=1, delivered_bytes=10**9, newest_rows=10**8, older_rows=0, parent_rows=10**8, dates=13)


@dataclass
class SimulatedRun:
    """The dedup task of a run of the publish DAG: its tries, deferrals and triggers, and processes that are killed.

    `clear_number`: how often the run was cleared. `tries`: so far; clearing does not reset it. `xcoms`: pushed ones.
    `pulled`: what every pull returns. If the task fails for good, Spark is stopped, as the DAG does.
    """

    setup: FeedSetup
    pulled: Any = ATTEMPT
    clear_number: int = 0
    tries: int = 0
    xcoms: dict[str, Any] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    result: Any = None
    state: str = "none"

    def operator(self) -> Any:
        """The operator. Each try and each resumption gets one of its own, as in Airflow."""
        task = dedup.dedup_step(self.setup, "dedup_snapshot")
        task.retries, task.retry_policy = RETRIES, RetryWhatMayHelp()
        return task

    def run(self) -> SimulatedRun:
        """Run the task until it succeeds or has no try left."""
        for _ in range(RETRIES + 1):
            self.tries += 1
            try:
                self.result, self.state = self.run_try(), "success"
                return self
            except AirflowFailException as error:
                self.errors.append(error)
                break
            except (Exception, ProcessKilled) as error:
                self.errors.append(error)
        self.state = "failed"
        self.stop_spark(self.context())
        return self

    def clear(self) -> None:
        """Let the task run again, as if somebody had cleared it."""
        self.clear_number += 1

    def run_try(self) -> Any:
        """Run one try, with all its deferrals. Returns the task's result."""
        operator = self.operator()
        try:
            with judged(operator, self.tries):
                return operator.execute(self.context())
        except TaskDeferred as deferred:
            return self.resume(deferred)

    def resume(self, deferred: TaskDeferred) -> Any:
        while True:
            event = asyncio.run(self.run_trigger(recreated(deferred.trigger)))
            operator = self.operator()
            try:
                with judged(operator, self.tries):
                    return getattr(operator, deferred.method_name)(self.context(), event.payload)
            except TaskDeferred as again:
                deferred = again

    async def run_trigger(self, trigger: BaseTrigger) -> TriggerEvent:
        """The trigger's event. If the triggerer is killed, another one starts with the stored trigger."""
        while True:
            try:
                return await anext(aiter(trigger.run()))
            except ProcessKilled:
                trigger = recreated(trigger)

    def deferral(self) -> TaskDeferred:
        """Run the task's next try until it is deferred, and return the deferral."""
        self.tries += 1
        with pytest.raises(TaskDeferred) as deferred:
            self.operator().execute(self.context())
        return deferred.value

    def stop_spark(self, context: Any) -> None:
        """What the DAG does when a task has failed."""
        dedup.stop_spark_runs(step.FeedRun(self.setup, context))

    def context(self) -> Any:
        ti = SimpleNamespace(
            try_number=self.tries,
            xcom_push=lambda key, value: self.xcoms.__setitem__(key, value),
            xcom_pull=lambda **_: self.pulled,
        )
        run = dag_run("publish", "run", clear_number=self.clear_number)
        dag = SimpleNamespace(task_ids=("resolve_publish",))
        return {"ti": ti, "task": self.operator(), "dag": dag, "dag_run": run}

    @property
    def error(self) -> str:
        return str(self.errors[-1])


def setup_for(runner: Runner, settings: SparkSettings, size: SparkSize, dags: Path) -> FeedSetup:
    """The setup of the worked example with this runner. `dags`: the folder of spark_code.json, which names the code."""
    deployment, shipped = _shipped()
    chosen = deployment.model_copy(update={"spark": settings, "runner": runner})
    feed = shipped.model_copy(update={"spark": size})
    folders = find_folders(REPOSITORY / "dags")
    return FeedSetup(feed, chosen, type(folders)(**{**vars(folders), "spark_code": dags / "spark_code.json"}))


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
        feed=SimpleNamespace(feed="worked_example"),
        log=lambda *_, **__: None,
        manifests=SimpleNamespace(
            attempt=lambda _: attempt,
            find_attempt=lambda _: attempt,
            candidate=lambda _: SimpleNamespace(manifest="a manifest", reused_from=""),
        ),
        current=SimpleNamespace(require_intent=lambda attempt: None),
        layout=FeedLayout("worked_example"),
        store=SimpleNamespace(
            create=lambda name, text: True,
            put=STORED.__setitem__,
            read_record=lambda kind, name: from_json(kind, STORED[name], where=name) if name in STORED else None,
        ),
    )
    monkeypatch.setattr(step, "open_feed_services", lambda setup: services)
    monkeypatch.setattr(dedup, "read_workload", lambda services, attempt: WORK)
