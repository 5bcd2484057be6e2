"""The trigger form of the rollback DAG."""

from __future__ import annotations

from airflow.sdk import Param


def rollback_params() -> dict[str, Param]:
    """An id that is no number is refused by the form itself; one that cannot be restored by the first task."""
    return {
        "generation": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Generation",
            description="Whose content readers shall see again. The page Snapshots lists those that can be restored; "
            "so does the first task when the number is wrong.",
        ),
        "reason": Param(
            None,
            type=["null", "string"],
            minLength=1,
            title="Reason",
            description="Why; kept in the ledger.",
        ),
    }
