"""The tasks of the content audit, one a step.

Records travel as JSON text: their sums have more than the 64 bits that XCom backends keep exactly.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowSkipException

from dedup_clone.audit.choose import choose_partitions
from dedup_clone.audit.compare import compare_fingerprints
from dedup_clone.audit.target import TargetPartition, fingerprint_target
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.final_errors import failing_at_once
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
            description="Audit this date now, for instance after a replay. Without it: those that are next in turn.",
        )
    }


def choose(setup: FeedSetup, context: Context) -> list[str]:
    """In: the form, CURRENT. Out: dates in turn. Skips the rest when there is nothing to compare, and says why."""
    services = connect(setup)
    with failing_at_once():
        chosen = choose_partitions(services, _wanted(context))
    if not chosen.dates:
        services.fact(f"audit: nothing to compare: {chosen.reason}")
        raise AirflowSkipException(f"Nothing to compare: {chosen.reason}.")
    return [day.isoformat() for day in chosen.dates]


def ask_target(setup: FeedSetup, context: Context) -> list[str]:
    """In: dates. Out: for each that was looked at, what target holds."""
    dates = tuple(date.fromisoformat(text) for text in context["ti"].xcom_pull(task_ids=CHOOSE_TASK))
    with failing_at_once():
        found = fingerprint_target(connect(setup), dates, context["dag_run"].run_id)
    return [to_json(partition) for partition in found]


def read_files(setup: FeedSetup, context: Context) -> dict[str, str]:
    """In: what target holds. Out: by date, what the files of the same generation hold."""
    from dedup_clone.audit.files import fingerprint_files  # Arrow and NumPy are heavy: not while DAGs are parsed

    services = connect(setup)
    return {
        partition.date.isoformat(): to_json(fingerprint_files(services, partition.generation, partition.date))
        for partition in _partitions(context)
        if partition.found is not None
    }


def compare(setup: FeedSetup, context: Context) -> list[dict[str, Any]]:
    """In: both sides. Out: the outcomes, kept in state. Fails when one is unequal."""
    pulled = context["ti"].xcom_pull(task_ids=FILES_TASK)
    published = {
        date.fromisoformat(day): from_json(PartitionFingerprint, text, where=f"XCom of {FILES_TASK}")
        for day, text in pulled.items()
    }
    with failing_at_once():
        records = compare_fingerprints(connect(setup), _partitions(context), published)
    return [{"date": r.date.isoformat(), "generation": r.generation, "outcome": str(r.outcome)} for r in records]


def _partitions(context: Context) -> tuple[TargetPartition, ...]:
    pulled = context["ti"].xcom_pull(task_ids=TARGET_TASK)
    return tuple(from_json(TargetPartition, text, where=f"XCom of {TARGET_TASK}") for text in pulled)


def _wanted(context: Context) -> date | None:
    text = context["params"]["date"]
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"Parameter [date] is [{text}], expected a date such as 2026-06-15.") from error
