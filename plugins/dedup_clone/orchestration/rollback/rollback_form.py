"""The trigger form of the rollback DAG."""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.contract.errors import ConfigurationError


def rollback_params() -> dict[str, Param]:
    """The form rejects what is not a number; the first task rejects a generation that cannot be restored."""
    return {
        "generation": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Generation (required)",
            description="The generation whose content readers should see again. The page Snapshots lists the "
            "generations that can be restored; so does the error of the first task if this one cannot be restored.",
        ),
        "reason": Param(
            "",
            type="string",
            minLength=1,
            title="Reason",
            description="Why the generation is restored; stored in the ledger.",
        ),
    }


def requested_generation(context: Context) -> int:
    """The generation in the form. Raises ConfigurationError when there is none."""
    generation = context["params"]["generation"]
    if generation is None:
        raise ConfigurationError(
            "Name the generation whose content shall be live again, in the parameter [generation]."
        )
    return int(generation)
