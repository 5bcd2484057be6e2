"""The trigger form and the tasks of the content audit DAG.

The tasks exchange records as JSON text, because an XCom backend may not store integers above 64 bits exactly.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowSkipException

from dedup_clone.audit.choose_partitions import choose_partitions
from dedup_clone.audit.compare_fingerprints import compare_fingerprints
from dedup_clone.audit.fingerprint_target import TargetPartition, fingerprint_target
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.task_runtime import fail_without_retry, open_feed_services
from dedup_clone.state.audits import PartitionFingerprint

CHOOSE_TASK, TARGET_TASK, FILES_TASK = "choose_partitions", "fingerprint_target", "fingerprint_files"


def audit_params() -> dict[str, Param]:
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


def select_dates(setup: FeedSetup, context: Context) -> list[str]:
    """Returns the date of the form, or the dates that are due. Skips the run when there is nothing to compare."""
    services = open_feed_services(setup)
    with fail_without_retry():
        selection = choose_partitions(services, _requested_date(context))
    if not selection.dates:
        services.log(f"audit: nothing to compare: {selection.reason}")
        raise AirflowSkipException(f"Nothing to compare: {selection.reason}.")
    return [day.isoformat() for day in selection.dates]


def fingerprint_target_partitions(setup: FeedSetup, context: Context) -> list[str]:
    """Returns the fingerprint of each date's partition in target."""
    dates = tuple(date.fromisoformat(text) for text in context["ti"].xcom_pull(task_ids=CHOOSE_TASK))
    with fail_without_retry():
        partitions = fingerprint_target(open_feed_services(setup), dates, context["dag_run"].run_id)
    return [to_json(partition) for partition in partitions]


def fingerprint_generation_files(setup: FeedSetup, context: Context) -> dict[str, str]:
    """Returns, by date, the fingerprint of the files of the generation that was live when target was fingerprinted."""
    # Imports Arrow and NumPy, which are too heavy to import while DAGs are parsed.
    from dedup_clone.audit.fingerprint_files import fingerprint_files

    services = open_feed_services(setup)
    with fail_without_retry():
        return {
            partition.date.isoformat(): to_json(fingerprint_files(services, partition.generation, partition.date))
            for partition in _partitions(context)
            if partition.found is not None  # None: the partition is larger than a day's budget
        }


def compare(setup: FeedSetup, context: Context) -> list[dict[str, Any]]:
    """Stores and returns the outcome of each date. Fails if the partition of a date differs from its files."""
    pulled = context["ti"].xcom_pull(task_ids=FILES_TASK)
    published = {
        date.fromisoformat(day): from_json(PartitionFingerprint, text, where=f"XCom of {FILES_TASK}")
        for day, text in pulled.items()
    }
    with fail_without_retry():
        records = compare_fingerprints(open_feed_services(setup), _partitions(context), published)
    return [{"date": r.date.isoformat(), "generation": r.generation, "outcome": str(r.outcome)} for r in records]


def _partitions(context: Context) -> tuple[TargetPartition, ...]:
    pulled = context["ti"].xcom_pull(task_ids=TARGET_TASK)
    return tuple(from_json(TargetPartition, text, where=f"XCom of {TARGET_TASK}") for text in pulled)


def _requested_date(context: Context) -> date | None:
    text = context["params"]["date"]
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"Parameter [date] is [{text}], expected a date such as 2026-06-15.") from error
