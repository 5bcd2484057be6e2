"""The form of the rebuild DAG, and its tasks before and after the steps that it shares with publish."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context, Param

from dedup_clone.contract.attempt import Attempt, Duplicates
from dedup_clone.operations.rebuild import RebuildRequest, delete_copies, prepare_staging_layout, prepare_swap
from dedup_clone.operations.rebuild import export as export_rebuilt
from dedup_clone.operations.rebuild import prepare as resolve_rebuild
from dedup_clone.operations.rebuild import preview as preview_rebuild
from dedup_clone.orchestration import bootstrap
from dedup_clone.orchestration.forms import given_reason, required_reason, with_reason
from dedup_clone.orchestration.jobs import AttemptJobOperator
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.orchestration.task_runtime import open_feed_services, pull_attempt, pull_attempt_id
from dedup_clone.publish.services import Services

SHOW_TASK = "show_rebuild"


class SwapRebuiltOperator(AttemptJobOperator):
    """The swap. Fails if the exported table was changed; else gives target the declared clustering before it swaps."""

    def prepare(self, services: Services, attempt: Attempt) -> None:
        prepare_swap(services, attempt)


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


def _request(context: Context) -> RebuildRequest:
    params, run = context["params"], context["dag_run"]
    return RebuildRequest(
        dag_id=run.dag_id,
        run_id=run.run_id,
        reason=given_reason(context),
        renamed=dict(params["renamed"] or {}),
        duplicates=Duplicates(params["duplicates"]),
        compared_dates=int(params["compared_dates"]),
    )


def show(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """Returns what the rebuild would do, with a text for the approver. Acquires no lease."""
    services = open_feed_services(setup)
    live, text = preview_rebuild(services, _request(context))
    services.log("a rebuild would do this:\n" + text, generation=live)
    return {"live_generation": live, "text": with_reason(context, text)}


def resolve(setup: FeedSetup, context: Context) -> str:
    """Acquires the lease and returns the attempt's id. Fails if the generation that the plan showed is not live now."""
    shown = context["ti"].xcom_pull(task_ids=SHOW_TASK)
    return resolve_rebuild(open_feed_services(setup), _request(context), shown["live_generation"]).id


def export(setup: FeedSetup, context: Context) -> None:
    """Exports target's rows to files in state.

    If columns change, the rows are first copied into a table with the declared columns, and exported from there.
    """
    services = open_feed_services(setup)
    export_rebuilt(services, _request(context), pull_attempt(context, services))


def prepare(setup: FeedSetup, context: Context) -> None:
    """Gives staging the declared columns."""
    services = open_feed_services(setup)
    prepare_staging_layout(services, pull_attempt(context, services))


def clean(setup: FeedSetup, context: Context) -> int:
    """Deletes the copy, if there is one, and the exported files. Returns the number of files."""
    return delete_copies(open_feed_services(setup), pull_attempt_id(context))
