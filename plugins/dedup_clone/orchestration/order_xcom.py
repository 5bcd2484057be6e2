"""The order of a run, as the resolve task left it in XCom."""

from __future__ import annotations

from airflow.sdk import Context

from dedup_clone.contract.records import from_plain
from dedup_clone.publish.orders import PublishOrder

RESOLVE_TASK = "resolve_publish"


def pull_order(context: Context) -> PublishOrder:
    """Raises ContractViolation when the resolve task of another version wrote it."""
    return from_plain(PublishOrder, context["ti"].xcom_pull(task_ids=RESOLVE_TASK), where=f"XCom of {RESOLVE_TASK}")


def order_field(name: str) -> str:
    """A template that renders to one field of the order."""
    return "{{ " + f"ti.xcom_pull(task_ids='{RESOLVE_TASK}')['{name}']" + " }}"
