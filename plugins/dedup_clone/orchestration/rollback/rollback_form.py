"""The trigger form of the rollback DAG."""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.orchestration.shared.form_fields import required_reason


def rollback_params() -> dict[str, Param]:
    """The form's fields, both required. The first task refuses a generation that cannot be restored."""
    return {
        "generation": Param(
            None,
            type="integer",
            minimum=1,
            title="Generation",
            description="The generation whose content readers should see again. The page Snapshots lists the "
            "generations that can be restored; so does the error of the first task if this one cannot be restored. "
            "While another run is at work, the first task waits for its end, at most twice the freshness SLA.",
        ),
        "reason": required_reason("Why the generation is restored; stored in the ledger."),
    }


def requested_generation(context: Context) -> int:
    """The generation in the form."""
    return int(context["params"]["generation"])
