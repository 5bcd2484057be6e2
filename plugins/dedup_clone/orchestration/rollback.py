"""The form of the rollback DAG, its tasks before the steps that it shares with publish, and its load task."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NoReturn

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator, Context, Param

from dedup_clone.contract.errors import LeaseHeld, RollbackRefused
from dedup_clone.operations.rollback import RollbackRequest
from dedup_clone.operations.rollback import prepare as resolve_rollback
from dedup_clone.operations.rollback import preview as preview_rollback
from dedup_clone.orchestration.forms import given_reason, required_reason, with_reason
from dedup_clone.orchestration.jobs import LoadStagingOperator
from dedup_clone.orchestration.publish import LEASE_RETRY_INTERVAL
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.orchestration.task_runtime import open_feed_services, pull_attempt


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


def _request(context: Context) -> RollbackRequest:
    params, run = context["params"], context["dag_run"]
    return RollbackRequest(run.dag_id, run.run_id, int(params["generation"]), given_reason(context))


class ShowDifferenceOperator(BaseOperator):
    """Returns what would change, with a text for the approver. Acquires no lease.

    While another run is at work, the task waits, deferred, for at most twice the freshness SLA from the run's start.
    """

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup

    def execute(self, context: Context) -> dict[str, Any]:
        services, run = open_feed_services(self.setup), context["dag_run"]
        try:
            live, text = preview_rollback(services, _request(context))
        except LeaseHeld as error:
            self._wait(error, services.now() - (run.start_date or services.now()))
        services.log("a rollback would do this:\n" + text, generation=live)
        return {"live_generation": live, "text": with_reason(context, text)}

    def _wait(self, held: LeaseHeld, waited: timedelta) -> NoReturn:
        if waited > timedelta(minutes=2 * self.setup.feed.freshness.sla_minutes):
            raise RollbackRefused(
                f"[{self.setup.feed.feed}] cannot be rolled back, because another run has been at work for so long: "
                f"{held} If that run hangs, mark it as failed. Then clear this run from its first task."
            ) from held
        self.log.info("waits for the end of the other run: %s", held)
        self.defer(trigger=TimeDeltaTrigger(LEASE_RETRY_INTERVAL), method_name="show_after_interval")

    def show_after_interval(self, context: Context, event: object = None) -> dict[str, Any]:
        """Called after the interval: the other run may have ended."""
        return self.execute(context)


def resolve(setup: FeedSetup, context: Context) -> str:
    """Acquires the lease, writes the restored generation as candidate, and returns the attempt's id.

    Fails if another generation has become live since `show_difference`.
    """
    shown = context["ti"].xcom_pull(task_ids="show_difference")
    return resolve_rollback(open_feed_services(setup), _request(context), shown["live_generation"]).id


class RestoreStagingOperator(LoadStagingOperator):
    """Loads the generation's files, unless the swap can clone staging as of a time when staging held the generation.

    That time is the attempt's `restored_at`; it is None if the files must be loaded.
    """

    def execute(self, context: Context) -> str:
        attempt = pull_attempt(context, open_feed_services(self.setup))
        if attempt.restored_at is not None:
            self.log.info("nothing to load: the swap clones staging as of %s", attempt.restored_at)
            return ""
        return super().execute(context)
