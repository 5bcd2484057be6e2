"""BigQuery jobs of a publish: one per attempt, whatever happens to the task that made it.

The provider's operator, with force_rerun=False, raises on a job id whose job is done, even when it ended well. Here a
task attaches to a running job, reuses one that ended well, and takes the next id after one that failed.
"""

from __future__ import annotations

import time
from typing import Any

from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
from airflow.providers.google.cloud.operators.bigquery import BigQueryInsertJobOperator
from airflow.sdk import Context

from dedup_clone.engines.staging_job import finish_staging, staging_configuration
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.order_xcom import pull_order
from dedup_clone.publish.jobs import find_step_job
from dedup_clone.publish.load import begin_load, read_candidate
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.partition_load import dates_to_load, load_dates
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.jobs import BRIEF_POLL_S, pauses

BRIEF_WAIT_S = 5.0


class AttemptJobOperator(BigQueryInsertJobOperator):
    """A BigQuery job under the lease that the run's order names."""

    def __init__(self, *, setup: FeedSetup, step: str, configuration: dict[str, Any], **kwargs: Any) -> None:
        deployment = setup.deployment
        super().__init__(
            configuration=configuration,
            project_id=deployment.project,
            location=deployment.location,
            gcp_conn_id=deployment.google_cloud_connection,
            deferrable=True,
            poll_interval=deployment.job_poll_interval_s,
            durable=False,
            cancel_on_kill=False,  # an aborted load or swap is settled by its outcome, not by a race to cancel it
            **kwargs,
        )
        self.setup = setup
        self.step = step

    def submit_job(self, context: Context) -> str:
        """Find this attempt's job or make it; its id is recorded in CURRENT before it is made."""
        order, services = pull_order(context), connect(self.setup)
        self.hook = BigQueryHook(gcp_conn_id=self.gcp_conn_id)
        job = find_step_job(services, order.attempt, self.step)
        if job.known is None:
            self.prepare(services, order)
            services.current.record_job(order.attempt, job.job_id)
            self._job = self._submit_job(self.hook, job.job_id)
        else:
            how = "ended well" if job.known.ended else "is running: attaches"
            self.log.info("job %s %s: uses it", job.job_id, how)
            self._job = self.hook.get_job(project_id=self.project_id, location=self.location, job_id=job.job_id)
        self._persist_job_links(self._job, context)
        self._wait_briefly()
        return job.job_id

    def execute(self, context: Context) -> str:
        services, order = connect(self.setup), pull_order(context)
        services.current.require_intent(order.attempt)
        with failing_at_once():
            super().execute(context)
            self.finish(services, order)
        return str(self.job_id)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> str:
        super().execute_complete(context, event)
        self.finish(connect(self.setup), pull_order(context))
        return str(self.job_id)

    def _wait_briefly(self) -> None:
        """A job that ends within seconds is not worth the way through the triggerer and a second task start."""
        deadline, pause = time.monotonic() + BRIEF_WAIT_S, pauses(BRIEF_POLL_S)
        while self._job.running() and time.monotonic() < deadline:  # type: ignore[no-untyped-call]
            time.sleep(next(pause))

    def prepare(self, services: Services, order: PublishOrder) -> None:
        """What must hold before a new job is made."""

    def finish(self, services: Services, order: PublishOrder) -> None:
        """What is noted after the job ended well."""


class LoadStagingOperator(AttemptJobOperator):
    """Makes staging hold the generation: one free load job of its files, or the statement of an engine in SQL."""

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(setup=setup, step="load", configuration={}, **kwargs)

    def execute(self, context: Context) -> str:
        """Dates that did not change are not loaded, where that can be told; else one deferrable job does it all."""
        services, order = connect(self.setup), pull_order(context)
        with failing_at_once():
            services.current.require_intent(order.attempt)
            candidate, manifest = read_candidate(services, order)
            dates = dates_to_load(services, candidate, manifest)
            if dates is not None:
                load_dates(services, order, candidate, manifest, dates)
                return f"{len(dates)} partitions"
        return super().execute(context)

    def prepare(self, services: Services, order: PublishOrder) -> None:
        candidate, manifest = read_candidate(services, order)
        self.configuration = staging_configuration(services, order, candidate, manifest)
        begin_load(services, order, manifest)

    def finish(self, services: Services, order: PublishOrder) -> None:
        finish_staging(services, order, *read_candidate(services, order))
