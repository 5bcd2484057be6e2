"""BigQuery jobs of an attempt: one a step, whatever happens to the task that made it.

A task attaches to a running job, reuses one that ended well, and takes the next id after one that failed. Used by the
operators of the DAG and, without Airflow, by the engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dedup_clone.contract.errors import OutcomeUnknown
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.facts import JobFacts
from dedup_clone.warehouse.jobs import EndedJob

FAILED_JOBS_TOLERATED = 20


@dataclass(frozen=True)
class StepJob:
    """The job that a step of an attempt works with; `known` is None when it is still to be made."""

    job_id: str
    known: JobFacts | None


def attempt_job_id(feed: str, attempt: str, step: str, number: int) -> str:
    """Deterministic: a retried task finds the job of its attempt; `number` counts failed ones. No hyphen in `step`."""
    return f"dedup_clone-{feed}-{attempt}-{step}-{number}"


def find_step_job(services: Services, attempt: str, step: str) -> StepJob:
    """The job to attach to or to reuse, else the id for the next try. Raises OutcomeUnknown after too many failures."""
    known: JobFacts | None = None
    for number in range(1, FAILED_JOBS_TOLERATED + 1):
        job_id = attempt_job_id(services.feed.feed, attempt, step, number)
        known = services.warehouse.job(job_id)
        if known is None or not known.error:
            return StepJob(job_id, known)
    raise OutcomeUnknown(
        f"{FAILED_JOBS_TOLERATED} BigQuery jobs of step [{step}] of attempt [{attempt}] failed, the last one with: "
        f"{known.error if known else ''}. Mend that, then clear the run from its first task."
    )


def run_step_job(services: Services, attempt: str, step: str, configuration: Mapping[str, Any]) -> EndedJob:
    """Find or make the step's job and wait for it. Its id is in CURRENT before the job is made.

    Raises JobFailed, and LostRace when the attempt has lost the lease.
    """
    job = find_step_job(services, attempt, step)
    if job.known is None:
        services.current.record_job(attempt, job.job_id)
        services.warehouse.jobs.start(job.job_id, configuration)
    return services.warehouse.jobs.wait(job.job_id, poll_s=services.job_poll_s)


def query_configuration(
    services: Services, step: str, sql: str, parameters: Mapping[str, tuple[str, str]], **options: Any
) -> dict[str, Any]:
    """A query job; `parameters` are name -> (type, value as text), `options` further fields of the query."""
    return {
        "query": {
            "query": sql,
            "useLegacySql": False,
            "useQueryCache": False,
            "queryParameters": [
                {"name": name, "parameterType": {"type": kind}, "parameterValue": {"value": value}}
                for name, (kind, value) in parameters.items()
            ],
            **options,
        },
        "labels": job_labels(services, step),
    }


def job_labels(services: Services, step: str) -> dict[str, str]:
    """Labels by which the jobs of a feed and a step are found in BigQuery's job list and bill."""
    return {"dedup_clone_feed": services.feed.feed, "dedup_clone_step": step}


def table_reference(services: Services, table: str) -> dict[str, str]:
    """A table of the dataset as the REST API names it."""
    names = services.names
    return {"projectId": names.project, "datasetId": names.dataset, "tableId": table}
