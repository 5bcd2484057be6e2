"""The tasks of the rollback DAG that are its own; load, check, swap, commit and settling are the publish DAG's."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.bigquery_jobs import LoadStagingOperator
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.order_xcom import pull_order
from dedup_clone.publish.rollback import RollbackTrigger, resolve_rollback
from dedup_clone.publish.rollback_preview import preview_rollback


def show_difference(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """In: the form. Out: what would change, as whoever approves reads it. Takes no lease."""
    services, run = connect(setup), context["dag_run"]
    with failing_at_once():
        preview = preview_rollback(services, _generation(context), dag_id=run.dag_id, run_id=run.run_id)
    services.fact("a rollback would do this:\n" + preview.text, generation=preview.live_generation)
    return to_plain(preview)  # type: ignore[no-any-return]


def take_rollback_lease(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """In: the form and the difference, approved. Out: the order; the lease is taken from here on."""
    run, reason = context["dag_run"], context["params"]["reason"] or ""
    shown = context["ti"].xcom_pull(task_ids="show_difference")
    with failing_at_once():
        trigger = RollbackTrigger(run.dag_id, run.run_id, _generation(context), shown["live_generation"], reason)
        return to_plain(resolve_rollback(connect(setup), trigger))  # type: ignore[no-any-return]


class RestoreStagingOperator(LoadStagingOperator):
    """Loads the generation's files, unless the swap clones staging as it was: then there is nothing to load."""

    def execute(self, context: Context) -> str:
        order = pull_order(context)
        if order.restored_at is not None:
            self.log.info("nothing to load: the swap clones staging as it was at %s", order.restored_at)
            return ""
        return super().execute(context)


def _generation(context: Context) -> int:
    generation = context["params"]["generation"]
    if generation is None:
        raise ConfigurationError("Name the generation whose content shall be live again: parameter [generation].")
    return int(generation)
