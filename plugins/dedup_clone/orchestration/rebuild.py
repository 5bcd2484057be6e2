"""The form of the rebuild DAG, and its tasks before and after the steps that it shares with publish."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from dedup_clone.contract.attempt import Duplicates
from dedup_clone.operations.rebuild import RebuildRequest, delete_copies, prepare_staging_layout, prepare_swap
from dedup_clone.operations.rebuild import export as export_rebuilt
from dedup_clone.operations.rebuild import prepare as resolve_rebuild
from dedup_clone.operations.rebuild import preview as preview_rebuild
from dedup_clone.orchestration import bootstrap
from dedup_clone.orchestration.forms import given_reason, required_reason, with_reason
from dedup_clone.orchestration.step import FeedRun

SHOW_TASK = "show_rebuild"


def params() -> dict[str, Param]:
    shared = bootstrap.params()
    return {
        "renamed": Param(
            {},
            type=["null", "object"],
            additionalProperties={"type": "string"},
            title="Renamed columns",
            description='Former and new names, as {"colour": "color"}. Without an entry a column that the feed file '
            "lacks is dropped, and one that only the file has is new.",
        ),
        "duplicates": shared["duplicates"],
        "compared_dates": shared["compared_dates"],
        "reason": required_reason("Why the table is rebuilt; stored in the ledger."),
    }


def _request(run: FeedRun) -> RebuildRequest:
    params = run.form
    return RebuildRequest(
        dag_id=run.dag_id,
        run_id=run.run_id,
        reason=given_reason(run),
        renamed=dict(params["renamed"] or {}),
        duplicates=Duplicates(params["duplicates"]),
        compared_dates=int(params["compared_dates"]),
    )


def show(run: FeedRun) -> dict[str, Any]:
    """Returns what the rebuild would do, with a text for the approver. Acquires no lease."""
    services = run.services
    live, text = preview_rebuild(services, _request(run))
    services.log("a rebuild would do this:\n" + text, generation=live)
    return {"live_generation": live, "text": with_reason(run, text)}


def resolve(run: FeedRun) -> str:
    """Acquires the lease and returns the attempt's id. Fails if the generation that the plan showed is not live now."""
    shown = run.result_of(SHOW_TASK)
    return resolve_rebuild(run.services, _request(run), shown["live_generation"]).id


def export(run: FeedRun) -> None:
    """Exports target's rows to files in state.

    If columns change, the rows are first copied into a table with the declared columns, and exported from there.
    """
    export_rebuilt(run.services, _request(run), run.attempt)


def prepare(run: FeedRun) -> None:
    """Gives staging the declared columns."""
    prepare_staging_layout(run.services, run.attempt)


def clean(run: FeedRun) -> int:
    """Deletes the copy, if there is one, and the exported files. Returns the number of files."""
    return delete_copies(run.services, run.attempt_id)


def before_swap(run: FeedRun) -> None:
    """Fails if the exported table was changed; else gives target the declared clustering."""
    prepare_swap(run.services, run.attempt)
