"""The Python tasks of the publish DAG: each opens the services, runs one step of the protocol, returns its order."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, Context

from dedup_clone.checks.verdicts import require
from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.order_xcom import pull_order
from dedup_clone.publish.check import check_before_swap
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.healing import finish_or_discard
from dedup_clone.publish.prune import prune


def check_staging(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """In: the order. Out: what may be swapped. A failed check ends the run; target keeps its content."""
    with failing_at_once():
        return to_plain(check_before_swap(connect(setup), pull_order(context)))  # type: ignore[no-any-return]


def commit_swap(setup: FeedSetup, context: Context, target: Asset) -> dict[str, Any]:
    """In: the order; target is swapped. Out: the ledger record. Emits the Asset event of target."""
    record, verdicts = commit_attempt(connect(setup), pull_order(context).attempt)
    context["outlet_events"][target].extra = {
        "snapshot_id": record.snapshot_id,
        "generation": record.generation,
        "lag_s": record.lag_s,
    }
    with failing_at_once():
        require(verdicts, "Target holds the new generation, which is committed.")
    return to_plain(record)  # type: ignore[no-any-return]


def prune_state(setup: FeedSetup) -> list[str]:
    """Out: the data folders that were deleted."""
    return prune(connect(setup))


def settle_failure(setup: FeedSetup, context: Context) -> None:
    """A task failed: commit when the swap happened nevertheless, else free the lease; the next run starts clean."""
    services = connect(setup)
    intent = services.current.read().intent
    run = context["dag_run"]
    if intent is None or (intent.dag_id, intent.run_id) != (run.dag_id, run.run_id):
        services.fact("this run holds no lease: nothing to settle")
        return
    finish_or_discard(services, intent)
