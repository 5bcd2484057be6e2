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

from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.order_xcom import pull_order
from dedup_clone.publish.load import begin_load, finish_load, job_id, load_configuration, read_candidate
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.services import Services

FAILED_JOBS_TOLERATED = 20
BRIEF_WAIT_S = 5.0
BRIEF_POLL_S = 0.25


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
        for number in range(1, FAILED_JOBS_TOLERATED + 1):
            name = job_id(order, self.step, number)
            known = services.warehouse.job(name)
            if known is None:
                self.prepare(services, order)
                services.current.record_job(order.attempt, name)
                self._job = self._submit_job(self.hook, name)
            elif known.error:
                self.log.info("job %s failed (%s): takes the next id", name, known.error)
                continue
            else:
                self.log.info("job %s %s: uses it", name, "ended well" if known.ended else "is running: attaches")
                self._job = self.hook.get_job(project_id=self.project_id, location=self.location, job_id=name)
            self._persist_job_links(self._job, context)
            self._wait_briefly()
            return name
        raise RuntimeError(f"{FAILED_JOBS_TOLERATED} jobs of step [{self.step}] failed: read the last one's error.")

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
        deadline = time.monotonic() + BRIEF_WAIT_S
        while self._job.running() and time.monotonic() < deadline:  # type: ignore[no-untyped-call]
            time.sleep(BRIEF_POLL_S)

    def prepare(self, services: Services, order: PublishOrder) -> None:
        """What must hold before a new job is made."""

    def finish(self, services: Services, order: PublishOrder) -> None:
        """What is noted after the job ended well."""


class LoadStagingOperator(AttemptJobOperator):
    """Loads the generation's files into staging: one free load job for the whole table."""

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(setup=setup, step="load", configuration={}, **kwargs)

    def prepare(self, services: Services, order: PublishOrder) -> None:
        candidate, manifest = read_candidate(services, order)
        self.configuration = load_configuration(services, candidate)
        begin_load(services, order, manifest)

    def finish(self, services: Services, order: PublishOrder) -> None:
        finish_load(services, order, read_candidate(services, order)[1])
