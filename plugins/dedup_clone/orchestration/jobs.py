"""The steps of a run that are BigQuery jobs: load and swap. At most one job of each succeeds, however often it runs.

A step attaches to a job that runs, reuses a job that succeeded, and starts one with the next id after a failed job.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.providers.google.cloud.links.bigquery import BigQueryJobDetailLink
from airflow.providers.google.cloud.triggers.bigquery import BigQueryInsertJobTrigger

from dedup_clone.contract.errors import ContractViolation, JobFailed
from dedup_clone.engines.staging_job import finish_staging, staging_configuration
from dedup_clone.engines.stream_changes import changes_to_stream, finish_if_applied, stream_changes, writers_gone_at
from dedup_clone.orchestration.step import FeedRun, NotYet
from dedup_clone.publish.attempt_jobs import LOAD_STEP, SWAP_STEP, find_step_job
from dedup_clone.publish.attempts import find_swap
from dedup_clone.publish.load import begin_load, dates_to_load, load_dates, prepare_load, read_candidate
from dedup_clone.publish.swap import begin_swap, finish_swap
from dedup_clone.warehouse.jobs import BRIEF_POLL_S
from dedup_clone.warehouse.metadata import JobMetadata

APPLY_INTERVAL = timedelta(seconds=30)  # how often the task asks whether BigQuery has applied the streamed changes
WAIT_BEFORE_DEFERRAL_S = 5.0


def load_staging(run: FeedRun) -> str:
    """Fills staging with the generation, and returns what was loaded.

    Does nothing if the swap can clone staging as of a time when it held the generation: a rollback's `restored_at`.
    """
    services, attempt = run.services, run.attempt
    if attempt.restored_at is not None:
        services.log(f"nothing to load: the swap clones staging as of {attempt.restored_at}")
        return ""
    services.current.require_intent(attempt.id)
    candidate, manifest = read_candidate(services, attempt.id)
    # 1. Engine `cdc`: stream the changed rows, if they are few.
    changes = changes_to_stream(services, attempt, candidate, manifest)
    if changes is not None:
        stream_changes(services, attempt, manifest, changes)
        if not finish_if_applied(services, attempt, manifest):
            raise NotYet("BigQuery has not applied the streamed changes", APPLY_INTERVAL)
        return f"{changes.row_count} changed rows"
    if gone_at := writers_gone_at(services, attempt):
        raise NotYet("an earlier attempt may still stream rows into staging", gone_at - services.now())
    prepare_load(services, attempt)
    # 2. Mode `last_changed`: load the dates whose files have changed, if they are few.
    dates = dates_to_load(services, candidate, manifest)
    if dates is not None:
        load_dates(services, attempt, candidate, manifest, dates)
        return f"{len(dates)} partitions"

    # 3. All others: one job, which loads all files or runs the statement of an SQL engine.
    def begin(job_id: str) -> dict[str, Any]:
        configuration = staging_configuration(services, attempt, candidate, manifest)
        begin_load(services, attempt, [job_id])
        return configuration

    job_id = _run_job(run, LOAD_STEP, begin)
    finish_staging(services, attempt, candidate, manifest)
    return job_id


def swap_target(run: FeedRun) -> str:
    """Replaces target's rows with those that were checked. Returns the job's id."""
    services, attempt = run.services, run.attempt
    services.current.require_intent(attempt.id)
    checked = find_swap(services, attempt.id)
    if checked is None:
        raise ContractViolation(f"Attempt [{attempt.id}] was not checked: clear the run from its first task.")
    job_id = _run_job(run, SWAP_STEP, partial(begin_swap, services, attempt, checked))
    finish_swap(services, checked)
    return job_id


def _run_job(run: FeedRun, step: str, begin: Callable[[str], dict[str, Any]]) -> str:
    """The id of the step's one job that has succeeded. Raises NotYet while it runs, JobFailed if it failed.

    `begin`: called with the id of a job before it is started; records the id in CURRENT, and returns the configuration.
    """
    services, attempt, deployment = run.services, run.attempt_id, run.setup.deployment
    job = find_step_job(services, attempt, step)
    has_waited_for_job = isinstance(run.event, dict)  # the event of the trigger for a time is that time
    if has_waited_for_job and job.failed and job.metadata is None:  # else an earlier try's job failed
        raise _job_failed(job.failed)
    if job.metadata is None:
        services.warehouse.jobs.start(job.job_id, begin(job.job_id))
    elif not has_waited_for_job:
        services.log(f"{'reuses successful' if job.metadata.ended else 'attaches to running'} job {job.job_id}")
    run.link(BigQueryJobDetailLink, project_id=deployment.project, location=deployment.location, job_id=job.job_id)
    try:  # resuming a deferred task takes longer than a short job
        (ended,) = services.warehouse.wait_for_jobs([job.job_id], poll_s=BRIEF_POLL_S, timeout_s=WAIT_BEFORE_DEFERRAL_S)
    except TimeoutError:
        trigger = BigQueryInsertJobTrigger(
            conn_id=deployment.google_cloud_connection,
            job_id=job.job_id,
            project_id=deployment.project,
            location=deployment.location,
            poll_interval=deployment.job_poll_interval_s,
            cancel_on_kill=False,  # recovery waits for the job's outcome, and a cancellation could change that outcome
        )
        raise NotYet(f"BigQuery job {job.job_id} runs", trigger) from None
    if ended.error:
        raise _job_failed(ended)
    return job.job_id


def _job_failed(job: JobMetadata) -> JobFailed:
    return JobFailed(
        f"BigQuery job [{job.job_id}] failed: {job.error}. If the task is not tried again, correct what it names, then "
        f"clear the run from its first task.",
        message=job.error or "",
        reason=job.reason or "",
    )
