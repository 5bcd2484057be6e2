"""Airflow as the product's tasks, operators and triggers see it, without a scheduler.

Answers and runs are the task SDK's own models. The tests of ended runs on the real stack compare them with those of the
real service.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.providers.openlineage.plugins.listener import OpenLineageListener
from airflow.sdk import RetryAction
from airflow.sdk.api.datamodels._generated import DagRun, DagRunState, DagRunType
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType, TaskDeferred
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import (
    DagResult,
    DagRunResult,
    DagRunStateResult,
    DRCount,
    ErrorResponse,
    GetDag,
    GetDagRun,
    GetDagRunState,
    GetDRCount,
    GetPreviousDagRun,
    GetTICount,
    PreviousDagRunResult,
    TICount,
)
from airflow.triggers.base import BaseTrigger, TriggerEvent
from openlineage.client import OpenLineageClient
from openlineage.client.serde import Serde
from openlineage.client.transport import Transport


def dag_run(dag_id: str, run_id: str, **fields: Any) -> DagRun:
    """A run as the context of its tasks has it: started now by hand and running, unless `fields` says otherwise."""
    now = datetime.now(UTC)
    without_value = ("logical_date", "data_interval_start", "data_interval_end", "end_date", "partition_key")
    given: dict[str, Any] = {
        **dict.fromkeys(without_value),
        "run_after": now,
        "start_date": now,
        "run_type": DagRunType.MANUAL,
        "state": DagRunState.RUNNING,
        "consumed_asset_events": [],
        **fields,
    }
    return DagRun(dag_id=dag_id, run_id=run_id, **given)


class TaskApi:
    """Airflow as a task sees it. `runs`: by DAG id and run id. `paused`, `unknown`: ids of DAGs; others are active.

    If `failure` is set, it is the detail of the error with which every question is answered.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: dict[str, dict[str, DagRunResult]] = defaultdict(dict)
        self.paused: set[str] = set()
        self.unknown: set[str] = set()
        self.failure: dict[str, Any] | None = None
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", self, raising=False)

    def add_run(self, dag_id: str, run_id: str, state: str = "running", **fields: Any) -> None:
        """Add the run, or replace it."""
        run = dag_run(dag_id, run_id, state=DagRunState(state), **fields)
        self.runs[dag_id][run_id] = DagRunResult.from_api_response(run)

    def send(self, msg: Any) -> Any:
        """What `SUPERVISOR_COMMS.send` of the task SDK returns."""
        if self.failure is not None:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=self.failure))
        match msg:
            case GetDRCount():
                return DRCount(count=len(self._matching(msg)))
            case GetTICount():
                return TICount(count=0)
            case GetDagRun():
                return self._run(msg.dag_id, msg.run_id)
            case GetDagRunState():
                return DagRunStateResult(state=self._run(msg.dag_id, msg.run_id).state)
            case GetPreviousDagRun():
                return PreviousDagRunResult(dag_run=self._previous(msg))
            case GetDag():
                return self._dag(msg.dag_id)
        raise AssertionError(f"the product asks Airflow what this double cannot answer: {msg}")

    def _matching(self, question: GetDRCount) -> list[DagRunResult]:
        return [
            run
            for run in self.runs[question.dag_id].values()
            if (question.run_ids is None or run.run_id in question.run_ids)
            and (question.states is None or run.state.value in question.states)
        ]

    def _run(self, dag_id: str, run_id: str) -> DagRunResult:
        return self.runs[dag_id].get(run_id) or _raise_not_found(f"Dag run [{run_id}] of [{dag_id}]")

    def _previous(self, question: GetPreviousDagRun) -> DagRun | None:
        dated = {run.logical_date: run for run in self.runs[question.dag_id].values()
                 if run.logical_date and run.logical_date < question.logical_date
                 and question.state in (None, run.state.value)}  # fmt: skip
        found = dated[max(dated)] if dated else None
        return None if found is None else DagRun(**found.model_dump(exclude={"type"}))

    def _dag(self, dag_id: str) -> DagResult:
        if dag_id in self.unknown:
            _raise_not_found(f"Dag [{dag_id}]")
        without_value = ("bundle_version", "relative_fileloc", "owners", "next_dagrun")
        fields: dict[str, Any] = dict.fromkeys(without_value)
        return DagResult(dag_id=dag_id, is_paused=dag_id in self.paused, bundle_name="dags-folder", tags=[], **fields)


def _raise_not_found(what: str) -> Any:
    detail = {"status_code": HTTPStatus.NOT_FOUND.value, "message": f"{what} was not found", "detail": None}
    raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


@contextmanager
def judged(task: Any, try_number: int = 1) -> Iterator[None]:
    """Raises AirflowFailException in place of an error after which the task's retry policy lets a worker fail it."""
    try:
        yield
    except Exception as error:
        if task.retry_policy and task.retry_policy.evaluate(error, try_number, 9).action is RetryAction.FAIL:
            raise AirflowFailException(str(error)) from error
        raise


class ProcessKilled(BaseException):
    """Stands for the end of the process at work. It is no Exception, so that no handler catches it."""


@dataclass
class SimulatedTask:
    """A task of one run, with its tries, its deferrals and triggers, and processes that are killed.

    `make_operator`: each try and each resumption gets an operator of its own, as in Airflow. `retries`: further tries.
    `clear_number`: how often the run was cleared. `tries`: so far; clearing does not reset it. `xcoms`: pushed ones.
    `pulled`: what every pull returns. `tasks`: ids of the DAG's tasks. `on_failure`: called with a context when no
    try is left.
    """

    make_operator: Callable[[], Any]
    retries: int = 0
    clear_number: int = 0
    pulled: Any = None
    tasks: tuple[str, ...] = ()
    on_failure: Callable[[Any], object] = lambda context: None
    tries: int = 0
    xcoms: dict[str, Any] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    result: Any = None
    state: str = "none"

    def run(self) -> SimulatedTask:
        """Run the task until it succeeds or has no try left."""
        for _ in range(self.retries + 1):
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
        self.on_failure(self.context())
        return self

    def clear(self) -> None:
        """Let the task run again, as if somebody had cleared it."""
        self.clear_number += 1

    def run_try(self) -> Any:
        """Run one try, with all its deferrals. Returns the task's result."""
        operator = self.make_operator()
        try:
            with judged(operator, self.tries):
                return operator.execute(self.context())
        except TaskDeferred as deferred:
            return self.resume(deferred)

    def resume(self, deferred: TaskDeferred) -> Any:
        while True:
            event = asyncio.run(self.run_trigger(recreated(deferred.trigger)))
            operator = self.make_operator()
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
            self.make_operator().execute(self.context())
        return deferred.value

    def context(self) -> Any:
        ti = SimpleNamespace(
            try_number=self.tries,
            xcom_push=lambda key, value: self.xcoms.__setitem__(key, value),
            xcom_pull=lambda **_: self.pulled,
        )
        run = dag_run("publish", "run", clear_number=self.clear_number)
        dag = SimpleNamespace(task_ids=self.tasks)
        return {"ti": ti, "task": self.make_operator(), "dag": dag, "dag_run": run}

    @property
    def error(self) -> str:
        return str(self.errors[-1])


def recreated(trigger: BaseTrigger) -> BaseTrigger:
    """The trigger that a triggerer makes from what Airflow has stored of it."""
    path, kwargs = trigger.serialize()
    assert path == f"{type(trigger).__module__}.{type(trigger).__qualname__}"
    return type(trigger)(**kwargs)


class LineageListener(OpenLineageListener):
    """The provider's listener, which sends events in the calling thread. `events`: those that it sent."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.events: list[dict[str, Any]] = []
        transport = type("Recorder", (Transport,), {"kind": "recorder", "emit": lambda _, event: self._record(event)})
        self.adapter = OpenLineageAdapter(client=OpenLineageClient(transport=transport()))

    def _record(self, event: Any) -> None:
        self.events.append(Serde.to_dict(event))

    def _execute(self, callable: Callable[[], None], callable_name: str, use_fork: bool = False) -> None:
        callable()
