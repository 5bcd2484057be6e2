"""Operators for the BigQuery jobs of a publish. At most one job of a step succeeds, however often the task runs.

The provider's operator, with force_rerun=False, raises when a job with its id has ended, even if the job succeeded.
These operators attach to a running job, reuse a job that succeeded, and start one with the next id after a failed job.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
from airflow.providers.google.cloud.operators.bigquery import BigQueryInsertJobOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import JobFailed
from dedup_clone.engines.staging_job import finish_staging, staging_configuration
from dedup_clone.engines.stream_changes import changes_to_stream, finish_if_applied, stream_changes
from dedup_clone.orchestration.lineage import (
    LineageDataset,
    operator_lineage,
    state_dataset,
    table_dataset,
)
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.orchestration.task_runtime import open_feed_services, pull_attempt
from dedup_clone.publish.attempt_jobs import find_step_job
from dedup_clone.publish.load import begin_load, dates_to_load, load_dates, read_candidate
from dedup_clone.publish.records.attempt_records import SWAP_PARAMETERS
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.jobs import BRIEF_POLL_S, poll_intervals

APPLY_INTERVAL = timedelta(seconds=30)  # how often the task asks whether BigQuery has applied the streamed changes
WAIT_BEFORE_DEFERRAL_S = 5.0


class AttemptJobOperator(BigQueryInsertJobOperator):
    """Runs the one BigQuery job of a step, such as `swap`, while the run holds the lease."""

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
            cancel_on_kill=False,  # recovery waits for the job's outcome, and a cancellation could change that outcome
            **kwargs,
        )
        self.setup = setup
        self.step = step
        self.engine: Engine | None = None  # the attempt's engine; None until the task runs

    def submit_job(self, context: Context) -> str:
        """Finds the step's job or starts it. The job id is recorded in CURRENT before the job exists."""
        from google.api_core.exceptions import Conflict

        services = open_feed_services(self.setup)
        attempt = pull_attempt(context, services)
        self.hook = BigQueryHook(gcp_conn_id=self.gcp_conn_id)
        job = find_step_job(services, attempt.id, self.step)
        if job.metadata is None:
            self.prepare(services, attempt)
            services.current.record_jobs(attempt.id, [job.job_id])
            with suppress(Conflict):  # the client repeats a request whose answer was lost, so the job may exist
                self._submit_job(self.hook, job.job_id)
        else:
            self.log.info("%s job %s", "reuses successful" if job.metadata.ended else "attaches to running", job.job_id)
        self._job = self.hook.get_job(project_id=self.project_id, location=self.location, job_id=job.job_id)
        self._persist_job_links(self._job, context)
        self._wait_before_deferral()
        return job.job_id

    def execute(self, context: Context) -> str:
        """Returns the job's id, or defers until the job has ended."""
        services = open_feed_services(self.setup)
        attempt = pull_attempt(context, services)
        self.engine = attempt.engine
        services.current.require_intent(attempt.id)
        with self._with_reason_of_failure(services, attempt):
            super().execute(context)
        self.finish(services, attempt)
        return str(self.job_id)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> str:
        services = open_feed_services(self.setup)
        attempt = pull_attempt(context, services)
        self.engine = attempt.engine
        with self._with_reason_of_failure(services, attempt):
            super().execute_complete(context, event)
        self.finish(services, attempt)
        return str(self.job_id)

    @contextmanager
    def _with_reason_of_failure(self, services: Services, attempt: Attempt) -> Iterator[None]:
        """Raises JobFailed if the job failed, with BigQuery's reason, which decides about a retry.

        The provider's error is only a text, so BigQuery is asked for the reason.
        """
        try:
            yield
        except AirflowException as error:
            failed = find_step_job(services, attempt.id, self.step).failed
            if failed is None:
                raise
            raise JobFailed(
                f"BigQuery job [{failed.job_id}] failed: {failed.error}. If the task is not tried again, correct what "
                f"it names, then clear the run from its first task.",
                message=failed.error or "",
                reason=failed.reason or "",
            ) from error

    def _wait_before_deferral(self) -> None:
        """Waits some seconds for the job, because resuming a deferred task takes longer than a short job."""
        deadline, pause = time.monotonic() + WAIT_BEFORE_DEFERRAL_S, poll_intervals(BRIEF_POLL_S)
        while self._job.running() and time.monotonic() < deadline:  # type: ignore[no-untyped-call]
            time.sleep(next(pause))

    def prepare(self, services: Services, attempt: Attempt) -> None:
        """Called before a new job is started. Raises if the job must not be started."""

    def finish(self, services: Services, attempt: Attempt) -> None:
        """Called after the job succeeded."""

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Replaces the provider's method, which asks BigQuery for the job and lists each of its files as a dataset."""
        return None if self.engine is None else operator_lineage(*self.datasets(self.engine))

    def datasets(self, engine: Engine) -> tuple[list[LineageDataset], list[LineageDataset]]:
        """What the job reads, and what it writes: for the swap, staging and target. The load overrides this method."""
        names = self.setup.names
        return [table_dataset(self.setup, names.staging_table)], [table_dataset(self.setup, names.target_table)]


class LoadStagingOperator(AttemptJobOperator):
    """Fills staging with the generation: by free load jobs of its files, by streaming the changed rows, or by an SQL
    engine's statement.
    """

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(setup=setup, step="load", configuration={}, **kwargs)

    def execute(self, context: Context) -> str:
        """Streams the changed rows, or loads the changed partitions. If neither can be done, one job fills staging."""
        services = open_feed_services(self.setup)
        attempt = pull_attempt(context, services)
        services.current.require_intent(attempt.id)
        self.engine = attempt.engine
        candidate, manifest = read_candidate(services, attempt)
        changes = changes_to_stream(services, attempt, candidate, manifest)
        if changes is not None:
            stream_changes(services, attempt, manifest, changes)
            if not finish_if_applied(services, attempt, manifest):
                self.log.info("waits until BigQuery has applied the streamed changes")
                self.defer(trigger=TimeDeltaTrigger(APPLY_INTERVAL), method_name="resume_after_interval")
            return f"{changes.row_count} changed rows"
        dates = dates_to_load(services, candidate, manifest)
        if dates is not None:
            load_dates(services, attempt, candidate, manifest, dates)
            return f"{len(dates)} partitions"
        return super().execute(context)

    def resume_after_interval(self, context: Context, event: object = None) -> str:
        """Called after the interval: BigQuery may have applied the streamed changes."""
        return self.execute(context)

    def prepare(self, services: Services, attempt: Attempt) -> None:
        candidate, manifest = read_candidate(services, attempt)
        self.configuration = staging_configuration(services, attempt, candidate, manifest)
        begin_load(services, attempt, manifest)

    def finish(self, services: Services, attempt: Attempt) -> None:
        finish_staging(services, attempt, *read_candidate(services, attempt))

    def datasets(self, engine: Engine) -> tuple[list[LineageDataset], list[LineageDataset]]:
        """What the load reads, which depends on the engine, and staging, which it fills."""
        names = self.setup.names
        tables = [table_dataset(self.setup, name) for name in (names.target_table, names.incoming_table)]
        inputs = [state_dataset(self.setup)] if engine.runs_spark else tables
        return inputs, [table_dataset(self.setup, names.staging_table)]


def swap_configuration(feed: str, target: str) -> dict[str, Any]:
    """The configuration, which Airflow renders with the DAG's macros `names` and `options`. `target`: a table name."""
    return {
        "query": {
            "query": "{% include 'publish/swap_target.sql' %}",
            "useLegacySql": False,
            "queryParameters": [
                _parameter("target", "STRING", target),
                *(_parameter(name, kind, _xcom_field(name)) for name, kind in SWAP_PARAMETERS.items()),
            ],
        },
        "labels": {"dedup_clone_feed": feed, "dedup_clone_step": "swap"},
    }


def _xcom_field(name: str) -> str:
    return "{{ " + f"ti.xcom_pull(task_ids='check_staging')['{name}']" + " }}"


def _parameter(name: str, kind: str, value: str) -> dict[str, Any]:
    return {"name": name, "parameterType": {"type": kind}, "parameterValue": {"value": value}}
