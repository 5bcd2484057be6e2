"""The form of the bootstrap DAG, and its tasks before and after the steps that it shares with publish."""

from __future__ import annotations

from airflow.sdk import Param

from dedup_clone.contract.attempt import Duplicates
from dedup_clone.operations.bootstrap import BootstrapRequest
from dedup_clone.operations.bootstrap import prepare as resolve_bootstrap
from dedup_clone.operations.bootstrap import preview as preview_bootstrap
from dedup_clone.operations.takeover import drop_export, export_existing
from dedup_clone.orchestration.forms import count_limit_bytes, given_reason, required_reason, with_reason
from dedup_clone.orchestration.step import FeedRun
from dedup_clone.publish.existing_table import read_bootstrap_record, require_unchanged

SHOW_TASK = "show_existing"
MAX_COMPARED_DATES = 100


def params() -> dict[str, Param]:
    """The form's fields. By default the bootstrap is refused if it would leave out duplicates."""
    return {
        "source_table": Param(
            "",
            type=["null", "string"],
            title="Existing table",
            description="TABLE or DATASET.TABLE of this project and location; empty: the feed's target itself, which "
            "serves readers until it is replaced.",
        ),
        "duplicates": Param(
            str(Duplicates.REFUSE),
            type="string",
            enum=[str(policy) for policy in Duplicates],
            title="Duplicates",
            description="What to do if several rows have the same key: end the run and name their dates, or keep of "
            "each key the row with the highest update id (of several such rows the one with the greatest values).",
        ),
        "compared_dates": Param(
            3,
            type="integer",
            minimum=0,
            maximum=MAX_COMPARED_DATES,
            title="Dates to compare",
            description="Before the swap, BigQuery compares all columns of this many dates with staging. Each date "
            "takes two scans; the first task shows their price. The rows of every date are counted free of charge.",
        ),
        "count_limit_gib": Param(
            10,
            type="number",
            minimum=0,
            title="Count duplicates first (GiB)",
            description="The first task counts duplicate keys with a query, if that query reads no more than this. "
            "Without the count, the Spark job still finds every duplicate key.",
        ),
        "reason": required_reason("Why the table is taken over; stored in the ledger."),
    }


def _request(run: FeedRun) -> BootstrapRequest:
    params = run.form
    return BootstrapRequest(
        dag_id=run.dag_id,
        run_id=run.run_id,
        source_table=params["source_table"] or "",
        duplicates=Duplicates(params["duplicates"]),
        compared_dates=int(params["compared_dates"]),
        reason=given_reason(run),
    )


def show(run: FeedRun) -> dict[str, str]:
    """Returns what would happen, with a text for the approver. Acquires no lease."""
    services = run.services
    version, text = preview_bootstrap(services, _request(run), count_limit_bytes(run))
    services.log("a bootstrap would do this:\n" + text)
    return {"version": version, "text": with_reason(run, text)}


def resolve(run: FeedRun) -> str:
    """Acquires the lease and returns the attempt's id. Fails if the table was changed since the preview showed it."""
    shown = run.result_of(SHOW_TASK)
    return resolve_bootstrap(run.services, _request(run), shown["version"]).id


def export(run: FeedRun) -> None:
    """Exports the existing table's rows to files in state."""
    export_existing(run.services, run.attempt_id)


def delete_export(run: FeedRun) -> int:
    """Deletes the exported files, which the generation does not use. Returns their number."""
    return drop_export(run.services, run.attempt_id)


def require_unchanged_table(run: FeedRun) -> None:
    """Called before the swap. Fails if the existing table was changed after its rows were exported."""
    require_unchanged(run.services, read_bootstrap_record(run.services, run.attempt_id).existing)
