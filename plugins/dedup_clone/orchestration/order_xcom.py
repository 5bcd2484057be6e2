"""The order of a run, as the resolve task left it in XCom."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from dedup_clone.contract.records import from_plain
from dedup_clone.publish.orders import PublishOrder

RESOLVE_TASK = "resolve_publish"
ROLLBACK_TASK = "resolve_rollback"
BOOTSTRAP_TASK = "resolve_bootstrap"
RESULT = "return_value"  # the key of what a task returns


def pull_order(context: Context) -> PublishOrder:
    """The order of the run. Raises ContractViolation when a task of another version wrote it."""
    task = _task_of(context)
    return from_plain(PublishOrder, context["ti"].xcom_pull(task_ids=task), where=f"XCom of {task}")


def has_order(context: Context) -> bool:
    """Whether the run came so far as to have one."""
    return context["ti"].xcom_pull(task_ids=_task_of(context)) is not None


def _task_of(context: Context) -> str:
    """The task of the run's DAG that makes the order."""
    return next(t for t in (RESOLVE_TASK, ROLLBACK_TASK, BOOTSTRAP_TASK) if context["dag"].has_task(t))


def hand_on(context: Context, result: dict[str, Any]) -> None:
    """Keep `result` as the task's: Airflow does not, where a task skips others."""
    context["ti"].xcom_push(key=RESULT, value=result)


def order_field(name: str, *, task: str = RESOLVE_TASK) -> str:
    """A template that renders to one field of the order that `task` made."""
    return "{{ " + f"ti.xcom_pull(task_ids='{task}')['{name}']" + " }}"
