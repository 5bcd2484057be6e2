"""The order of a run, as the resolve task left it in XCom."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from dedup_clone.contract.records import from_plain
from dedup_clone.publish.orders import PublishOrder

RESOLVE_TASK = "resolve_publish"
ROLLBACK_TASK = "resolve_rollback"
RESULT = "return_value"  # the key of what a task returns


def pull_order(context: Context) -> PublishOrder:
    """The order of a publish or a rollback. Raises ContractViolation when a task of another version wrote it."""
    task = next(t for t in (RESOLVE_TASK, ROLLBACK_TASK) if context["dag"].has_task(t))
    return from_plain(PublishOrder, context["ti"].xcom_pull(task_ids=task), where=f"XCom of {task}")


def has_order(context: Context) -> bool:
    """Whether a publish came so far as to have one."""
    return context["ti"].xcom_pull(task_ids=RESOLVE_TASK) is not None


def hand_on(context: Context, result: dict[str, Any]) -> None:
    """Keep `result` as the task's: Airflow does not, where a task skips others."""
    context["ti"].xcom_push(key=RESULT, value=result)


def order_field(name: str) -> str:
    """A template that renders to one field of the order."""
    return "{{ " + f"ti.xcom_pull(task_ids='{RESOLVE_TASK}')['{name}']" + " }}"
