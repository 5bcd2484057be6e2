"""The first task of a publish run: acquires the lease and returns the publish spec; a dry run shows a preview."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator, Context
from airflow.sdk.bases.skipmixin import SkipMixin
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from dedup_clone.contract.errors import ConfigurationError, LeaseHeld
from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.publish.publish_form import read_publish_request
from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.task_runtime import fail_without_retry, open_feed_services, push_result
from dedup_clone.orchestration.watchdog.feed_check import refresh_verdict
from dedup_clone.publish.preview_publish import preview_publish
from dedup_clone.publish.records.held_deliveries import discard_held
from dedup_clone.publish.records.index_refresh import try_refresh_index
from dedup_clone.publish.resolve import resolve
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishRequest

# `max_active_runs` of the publish DAG. Only one run holds the lease; the others wait for approval or for the lease.
MAX_ACTIVE_RUNS = 8
LEASE_RETRY_INTERVAL = timedelta(seconds=10)


def require_free_slot(dag_id: str) -> None:
    """Raises ConfigurationError if over MAX_ACTIVE_RUNS / 2 runs of the DAG are active, that of this task included."""
    active = int(RuntimeTaskInstance.get_dr_count(dag_id, states=["running"]))
    if active > MAX_ACTIVE_RUNS // 2:
        raise ConfigurationError(
            f"[{active}] runs of [{dag_id}] are active. Of at most [{MAX_ACTIVE_RUNS}] half are kept for arrivals, so "
            f"no more runs may wait for approval. Answer those that wait (Required Actions), then trigger it again."
        )


class ResolvePublishOperator(BaseOperator, SkipMixin):
    """Returns the publish spec. While another run holds the lease, this task waits, deferred.

    The later tasks are skipped after a dry run, and when there is nothing to publish.
    """

    inherits_from_skipmixin = True

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup

    def execute(self, context: Context) -> dict[str, Any]:
        services = open_feed_services(self.setup)
        with fail_without_retry():
            request = read_publish_request(services, context)
            if context["params"]["dry_run"]:
                return self._dry_run(services, request, context)
            if context["params"]["discard"]:
                text = discard_held(services, request.delivery, run_id=request.run_id, reason=request.reason)
                try_refresh_index(services)
                refresh_verdict(self.setup)
                raise AirflowSkipException(text)
            if request.accepted_checks:
                require_free_slot(request.dag_id)
            try:
                spec_or_reason = resolve(services, request)
            except LeaseHeld as error:
                self.log.info("waits for the lease: %s", error)
                self.defer(trigger=TimeDeltaTrigger(LEASE_RETRY_INTERVAL), method_name="retry_resolve")
        if isinstance(spec_or_reason, str):
            raise AirflowSkipException(spec_or_reason)
        refresh_verdict(self.setup, reads_bigquery=False)  # the page counts the deliveries that wait
        return to_plain(spec_or_reason)  # type: ignore[no-any-return]

    def retry_resolve(self, context: Context, event: object = None) -> dict[str, Any]:
        """Called after the retry interval: the lease may be free now."""
        return self.execute(context)

    def _dry_run(self, services: Services, request: PublishRequest, context: Context) -> dict[str, Any]:
        """Returns what the publish would do, as Markdown, and skips every later task."""
        text = preview_publish(services, request)
        services.log(f"a publish would do this:\n{text}", snapshot_id=request.delivery.snapshot_id)
        push_result(context, {"text": text})
        self.skip(context["ti"], self.get_flat_relatives(upstream=False))
        return {"text": text}
