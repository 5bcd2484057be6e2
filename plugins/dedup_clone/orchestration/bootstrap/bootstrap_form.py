"""The trigger form of the bootstrap DAG, and the request that a filled form makes."""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.contract.billing import GIB
from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.bootstrap.resolve_bootstrap import BootstrapRequest

MAX_COMPARED_DATES = 100


def bootstrap_params() -> dict[str, Param]:
    """The defaults are the safe choices: duplicates are refused, and so are rows that would be left out."""
    return {
        "source_table": Param(
            None,
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
            description="Keys that the table holds more than once: end the run and name them, or keep for each the "
            "row with the highest update id (and of several such rows the one with the greatest values).",
        ),
        "drop_expired": Param(
            False,
            type="boolean",
            title="Leave out expired rows",
            description="Accept that rows older than the feed's retention will not be in target.",
        ),
        "compared_dates": Param(
            3,
            type="integer",
            minimum=0,
            maximum=MAX_COMPARED_DATES,
            title="Dates to compare",
            description="Before the swap, all columns of this many dates are compared with staging in BigQuery. Each "
            "takes two scans; the first task shows their price. Rows are counted for every date, free.",
        ),
        "count_limit_gib": Param(
            10,
            type="number",
            minimum=0,
            title="Count duplicates first (GiB)",
            description="The first task counts duplicate keys with a query, if it reads no more than this. The run "
            "itself finds them without a query.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only show what would be exported, loaded, left out and billed, and what prevents the "
            "bootstrap: see the log or the result of show_existing.",
        ),
        "reason": Param(
            None,
            type=["null", "string"],
            title="Reason",
            description="Why; stored in the ledger.",
        ),
    }


def read_bootstrap_request(context: Context) -> BootstrapRequest:
    params, run = context["params"], context["dag_run"]
    return BootstrapRequest(
        dag_id=run.dag_id,
        run_id=run.run_id,
        source_table=params["source_table"] or "",
        duplicates=Duplicates(params["duplicates"]),
        drop_expired=bool(params["drop_expired"]),
        compared_dates=int(params["compared_dates"]),
        reason=params["reason"] or "",
    )


def count_limit_bytes(context: Context) -> int:
    return int(context["params"]["count_limit_gib"] * GIB)
