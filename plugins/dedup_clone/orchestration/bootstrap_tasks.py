"""The tasks of the bootstrap DAG that are its own; dedup, load, check, commit and settling are the publish DAG's."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.bigquery_jobs import AttemptJobOperator
from dedup_clone.orchestration.bootstrap_form import count_limit_bytes, read_bootstrap_trigger
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.ends_dry_run import EndsDryRun
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.order_xcom import pull_order
from dedup_clone.publish.bootstrap import resolve_bootstrap
from dedup_clone.publish.bootstrap_export import drop_export, export_existing
from dedup_clone.publish.bootstrap_preview import preview_bootstrap
from dedup_clone.publish.existing_table import read_taken_over, require_unchanged
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.services import Services

SHOW_TASK = "show_existing"


class ShowExistingOperator(EndsDryRun):
    """Returns what would happen, as whoever approves reads it; takes no lease. After a dry run all else is skipped."""

    def execute(self, context: Context) -> dict[str, Any]:
        services = connect(self.setup)
        with failing_at_once():
            preview = preview_bootstrap(services, read_bootstrap_trigger(context), count_limit_bytes(context))
            services.fact("a bootstrap would do this:\n" + preview.text)
            result: dict[str, Any] = to_plain(preview)
            if context["params"]["dry_run"]:
                self.end_dry_run(context, result)
            elif preview.refused:
                raise BootstrapRefused("\n".join(preview.refused))
        return result


def take_bootstrap_lease(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """In: the form and what was shown, approved. Out: the order; the lease is taken from here on."""
    shown = context["ti"].xcom_pull(task_ids=SHOW_TASK)
    with failing_at_once():
        order = resolve_bootstrap(connect(setup), read_bootstrap_trigger(context), shown["version"])
        return to_plain(order)  # type: ignore[no-any-return]


def export_table(setup: FeedSetup, context: Context) -> None:
    """In: the order. Leaves the table's files in state, and the request of the dedup job."""
    with failing_at_once():
        export_existing(connect(setup), pull_order(context).attempt)


def delete_export(setup: FeedSetup, context: Context) -> int:
    """Out: how many exported files were deleted. The generation has its own."""
    return drop_export(connect(setup), pull_order(context).attempt)


class SwapExistingOperator(AttemptJobOperator):
    """The swap, made only while the existing table is as it was checked."""

    def prepare(self, services: Services, order: PublishOrder) -> None:
        require_unchanged(services, read_taken_over(services, order.attempt).existing)
