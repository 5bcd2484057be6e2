"""Fields that several trigger forms have, and what they mean."""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.contract.billing import GIB
from dedup_clone.orchestration.shared.task_runtime import triggered_by
from dedup_clone.publish.approval import asked_text


def required_reason(description: str) -> Param:
    """A field without which Airflow starts no run."""
    return Param("", type="string", minLength=1, title="Reason", description=description)


def with_asker(context: Context, text: str) -> str:
    """The text for whoever approves the run, followed by who asks for it and the reason in the form."""
    return f"{text}\n\n{asked_text(triggered_by(context), context['params']['reason'])}"


def count_limit_bytes(context: Context) -> int:
    """The most that the first task's query may read, as the form's field `count_limit_gib` says."""
    return int(context["params"]["count_limit_gib"] * GIB)
