"""The tasks of the bootstrap DAG before and after the steps that it shares with publish."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.bootstrap.bootstrap_form import read_bootstrap_request
from dedup_clone.orchestration.shared.bigquery_operators import AttemptJobOperator
from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.form_fields import count_limit_bytes, with_reason
from dedup_clone.orchestration.shared.task_runtime import fail_without_retry, open_feed_services, pull_spec
from dedup_clone.publish.bootstrap.existing_export import drop_export, export_existing
from dedup_clone.publish.bootstrap.existing_table import read_bootstrap_record, require_unchanged
from dedup_clone.publish.bootstrap.preview_bootstrap import preview_bootstrap
from dedup_clone.publish.bootstrap.resolve_bootstrap import resolve_bootstrap
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishSpec

SHOW_TASK = "show_existing"


def show_existing(setup: FeedSetup, context: Context) -> dict[str, str]:
    """Returns what would happen, with a text for the approver. Acquires no lease."""
    services = open_feed_services(setup)
    with fail_without_retry():
        version, text = preview_bootstrap(services, read_bootstrap_request(context), count_limit_bytes(context))
    services.log("a bootstrap would do this:\n" + text)
    return {"version": version, "text": with_reason(context, text)}


def resolve(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """Acquires the lease and returns the publish spec. Fails if the table was changed since the preview showed it."""
    shown = context["ti"].xcom_pull(task_ids=SHOW_TASK)
    with fail_without_retry():
        request = read_bootstrap_request(context)
        spec = resolve_bootstrap(open_feed_services(setup), request, shown["version"])
        return to_plain(spec)  # type: ignore[no-any-return]


def export(setup: FeedSetup, context: Context) -> None:
    """Exports the existing table's rows to files in state, and writes the request of the dedup job."""
    with fail_without_retry():
        export_existing(open_feed_services(setup), pull_spec(context).attempt)


@fail_without_retry()
def delete_export(setup: FeedSetup, context: Context) -> int:
    """Deletes the exported files, which the generation does not use. Returns their number."""
    return drop_export(open_feed_services(setup), pull_spec(context).attempt)


class SwapExistingOperator(AttemptJobOperator):
    """The swap. Fails before anything is swapped if the existing table was changed after its rows were exported."""

    def prepare(self, services: Services, spec: PublishSpec) -> None:
        require_unchanged(services, read_bootstrap_record(services, spec.attempt).existing)
