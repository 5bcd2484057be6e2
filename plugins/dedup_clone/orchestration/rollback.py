"""The form of the rollback DAG, and its steps before those that it shares with publish."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from dedup_clone.contract.errors import LeaseHeld, RollbackRefused
from dedup_clone.operations.rollback import RollbackRequest
from dedup_clone.operations.rollback import prepare as resolve_rollback
from dedup_clone.operations.rollback import preview as preview_rollback
from dedup_clone.orchestration.forms import given_reason, required_reason, with_reason
from dedup_clone.orchestration.publish import LEASE_RETRY_INTERVAL
from dedup_clone.orchestration.step import FeedRun, NotYet


def params() -> dict[str, Param]:
    """The form's fields, both required. The first task refuses a generation that cannot be restored."""
    return {
        "generation": Param(
            None,
            type="integer",
            minimum=1,
            title="Generation",
            description="The generation whose content readers should see again. The page Snapshots lists the "
            "generations that can be restored; so does the error of the first task if this one cannot be restored. "
            "While another run is at work, the first task waits for its end, at most twice the freshness SLA.",
        ),
        "reason": required_reason("Why the generation is restored; stored in the ledger."),
    }


def _request(run: FeedRun) -> RollbackRequest:
    return RollbackRequest(run.dag_id, run.run_id, int(run.form["generation"]), given_reason(run))


def show_difference(run: FeedRun) -> dict[str, Any]:
    """Returns what would change, with a text for the approver. Acquires no lease.

    While another run is at work, waits for at most twice the freshness SLA from the run's start.
    """
    services = run.services
    try:
        live, text = preview_rollback(services, _request(run))
    except LeaseHeld as error:
        waited = services.now() - (run.context["dag_run"].start_date or services.now())
        if waited <= timedelta(minutes=2 * run.setup.feed.freshness.sla_minutes):
            raise NotYet(f"for the end of the other run: {error}", LEASE_RETRY_INTERVAL) from error
        raise RollbackRefused(
            f"[{run.setup.feed.feed}] cannot be rolled back, because another run has been at work for so long: "
            f"{error} If that run hangs, mark it as failed. Then clear this run from its first task."
        ) from error
    services.log("a rollback would do this:\n" + text, generation=live)
    return {"live_generation": live, "text": with_reason(run, text)}


def resolve(run: FeedRun) -> str:
    """Acquires the lease, writes the restored generation as candidate, and returns the attempt's id.

    Fails if another generation has become live since `show_difference`.
    """
    shown = run.result_of("show_difference")
    return resolve_rollback(run.services, _request(run), shown["live_generation"]).id
