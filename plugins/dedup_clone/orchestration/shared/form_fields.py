"""Fields that several trigger forms have, and what they mean."""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.contract.billing import GIB


def required_reason(description: str) -> Param:
    """A field without which Airflow starts no run."""
    return Param("", type="string", minLength=1, title="Reason", description=description)


def count_limit_bytes(context: Context) -> int:
    """The most that the first task's query may read, as the form's field `count_limit_gib` says."""
    return int(context["params"]["count_limit_gib"] * GIB)
