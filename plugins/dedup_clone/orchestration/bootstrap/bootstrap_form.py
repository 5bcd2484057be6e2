"""The trigger form of the bootstrap DAG, and the request that a filled form makes."""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.contract.request import Duplicates
from dedup_clone.orchestration.shared.form_fields import given_reason, required_reason
from dedup_clone.publish.bootstrap.resolve_bootstrap import BootstrapRequest

MAX_COMPARED_DATES = 100


def bootstrap_params() -> dict[str, Param]:
    """The form's fields. By default the bootstrap is refused if it would leave out duplicates or expired rows."""
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
        "drop_expired": Param(
            False,
            type=["null", "boolean"],
            title="Leave out expired rows",
            description="Accept that rows older than the feed's retention will not be in target.",
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


def read_bootstrap_request(context: Context) -> BootstrapRequest:
    params, run = context["params"], context["dag_run"]
    return BootstrapRequest(
        dag_id=run.dag_id,
        run_id=run.run_id,
        source_table=params["source_table"] or "",
        duplicates=Duplicates(params["duplicates"]),
        drop_expired=bool(params["drop_expired"]),
        compared_dates=int(params["compared_dates"]),
        reason=given_reason(context),
    )
