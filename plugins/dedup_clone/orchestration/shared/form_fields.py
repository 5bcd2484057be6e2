"""Fields that several trigger forms have, and the values that tasks derive from them."""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.contract.billing import GIB
from dedup_clone.publish.approval import reason_as_typed


def required_reason(description: str) -> Param:
    """The field for a reason. Airflow starts no run while it is empty or has only spaces."""
    return Param("", type="string", pattern=r"\S", title="Reason", description=description)


def given_reason(context: Context) -> str:
    """The form's reason, with the name of the user who triggered the run if Airflow knows it. The ledger keeps both."""
    reason, user = context["params"]["reason"].strip(), context["dag_run"].triggering_user_name
    return f"{reason} (asked by {user})" if user else reason


def with_reason(context: Context, text: str) -> str:
    """Returns `text`, which the approver will read, with the reason added."""
    return f"{text}\n\n{reason_as_typed(given_reason(context))}"


def count_limit_bytes(context: Context) -> int:
    """The most bytes that the first task's query may read: the form's field `count_limit_gib`."""
    return int(context["params"]["count_limit_gib"] * GIB)
