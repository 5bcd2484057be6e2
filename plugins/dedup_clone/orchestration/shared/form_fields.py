"""Fields that several trigger forms have, and the values that tasks derive from them."""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.contract.billing import GIB
from dedup_clone.orchestration.shared.task_runtime import triggered_by
from dedup_clone.publish.approval import requester_and_reason


def required_reason(description: str) -> Param:
    """The field for a reason. Airflow starts no run while it is empty or has only spaces."""
    return Param("", type="string", pattern=r"\S", title="Reason", description=description)


def with_requester_and_reason(context: Context, text: str) -> str:
    """Returns `text`, which the approver will read, with the name of who triggered the run and the reason added."""
    return f"{text}\n\n{requester_and_reason(triggered_by(context), context['params']['reason'])}"


def count_limit_bytes(context: Context) -> int:
    """The most bytes that the first task's query may read: the form's field `count_limit_gib`."""
    return int(context["params"]["count_limit_gib"] * GIB)
