"""The trigger form and the task of the content audit DAG."""

from __future__ import annotations

from datetime import date
from typing import Any

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowSkipException

from dedup_clone.audit.partition_audit import choose_partitions, compare_partitions
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.step import FeedRun


def params() -> dict[str, Param]:
    """The trigger form."""
    return {
        "date": Param(
            None,
            type=["null", "string"],
            format="date",
            title="Partition",
            description="Audit this date now, for instance after a replay. Empty: the dates that are due.",
        )
    }


def audit(run: FeedRun) -> list[dict[str, Any]]:
    """Compares the date of the form, or those that are due, and returns the outcome of each.

    Fails if a partition differs from its files. Skips the run if there is nothing to compare.
    """
    services = run.services
    chosen = choose_partitions(services, _requested_date(run))
    if not chosen.dates:
        services.log(f"audit: nothing to compare: {chosen.reason}")
        raise AirflowSkipException(f"Nothing to compare: {chosen.reason}.")
    records = compare_partitions(services, chosen.dates, run.run_id)
    return [{"date": r.date.isoformat(), "generation": r.generation, "outcome": str(r.outcome)} for r in records]


def _requested_date(run: FeedRun) -> date | None:
    text = run.form["date"]
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"Parameter [date] is [{text}], expected a date such as 2026-06-15.") from error
