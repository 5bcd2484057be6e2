"""Airflow as the product's tasks, operators and triggers see it, without a scheduler.

Answers and runs are the task SDK's own models. The tests of ended runs on the real stack compare them with those of the
real service.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest
from airflow.sdk import RetryAction
from airflow.sdk.api.datamodels._generated import DagRun, DagRunState, DagRunType
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType
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
from airflow.triggers.base import BaseTrigger


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


def recreated(trigger: BaseTrigger) -> BaseTrigger:
    """The trigger that a triggerer makes from what Airflow has stored of it."""
    path, kwargs = trigger.serialize()
    assert path == f"{type(trigger).__module__}.{type(trigger).__qualname__}"
    return type(trigger)(**kwargs)
