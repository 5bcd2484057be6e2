"""Configures and runs BigQuery jobs of an attempt. However often a step is tried, at most one of its jobs succeeds.

A task waits for a running job of its step, reuses a job that succeeded, and starts a job with the next id if all
earlier jobs failed. The operators of the DAG and the engines use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from dedup_clone.contract.costs import GIB
from dedup_clone.contract.errors import CheckFailed, JobFailed, OutcomeUnknown
from dedup_clone.contract.table import Column
from dedup_clone.publish.date_ranges import MAX_RANGE_DAYS
from dedup_clone.publish.publish_costs import price_text
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.warehouse.metadata import JobMetadata, schema_field

LOAD_STEP = "load"
SWAP_STEP = "swap"
REPLACE_STEP = "replace"  # of engine `merge`: a query that replaces all rows of staging, see engines/staging_job.py
MAX_FAILED_JOBS = 20  # of one step of an attempt
COUNT_LIMIT = 100 * GIB  # that a preview reads to count rows; 0.61 USD on demand
# Without these options BigQuery reads a repeated field as a record with fields `list` and `element`, and an ENUM as
# BYTES.
PARQUET_OPTIONS = {"enableListInference": True, "enumAsString": True}
# Options of a load job whose source URI names a text file that lists the URIs of the files, one a line.
URI_LIST = {"fileSetSpecType": "FILE_SET_SPEC_TYPE_NEW_LINE_DELIMITED_MANIFEST"}


@dataclass(frozen=True)
class StepJob:
    """A step's BigQuery job. `metadata`: None while it does not exist.

    `failures`: how many jobs of the step failed before it; `failed`: the last of them.
    """

    job_id: str
    metadata: JobMetadata | None
    failed: JobMetadata | None
    failures: int


def attempt_job_id(feed: str, attempt: str, step: str, number: int) -> str:
    """The id of a step's `number`-th job. A retried task computes the same id.

    `step` must not contain a hyphen, because it is found in an id as the text between the last two hyphens.
    """
    return f"dedup_clone-{feed}-{attempt}-{step}-{number}"


def find_job(services: Services, feed: str, attempt: str, step: str) -> StepJob:
    """The step's job that runs or succeeded; else the id for its next job. `feed`: perhaps not that of `services`."""
    failed: JobMetadata | None = None
    failures = 0
    while True:
        job_id = attempt_job_id(feed, attempt, step, failures + 1)
        job = services.warehouse.job(job_id)
        if job is None or not job.error:
            return StepJob(job_id, job, failed, failures)
        failed, failures = job, failures + 1


def find_step_job(services: Services, attempt: str, step: str) -> StepJob:
    """As `find_job`, of the services' feed. Raises OutcomeUnknown if too many jobs failed."""
    job = find_job(services, services.feed.feed, attempt, step)
    if job.metadata is None and job.failures >= MAX_FAILED_JOBS:
        raise OutcomeUnknown(
            f"{job.failures} BigQuery jobs of step [{step}] of attempt [{attempt}] failed, the last one with: "
            f"{job.failed.error if job.failed else ''}. Remove the cause, then clear the run from its first task."
        )
    return job


def run_step_job(
    services: Services, attempt: str, step: str, configure: Callable[[], Mapping[str, Any]], *, is_recorded: bool = True
) -> JobMetadata:
    """Find the step's job, or start it with the configuration that `configure` returns, and wait for it.

    The job's id is recorded in CURRENT before the job is started, which needs the lease. `is_recorded`: False for a job
    for which no recovery has to wait. Raises JobFailed, OutcomeUnknown as `find_step_job` does, what `configure`
    raises, and LostRace when the attempt has lost the lease.
    """
    job = find_step_job(services, attempt, step)
    if job.metadata is None:
        configuration = configure()
        if is_recorded:
            services.current.record_jobs(attempt, [job.job_id])
        services.warehouse.jobs.start(job.job_id, configuration)
    return services.warehouse.wait_for_job(job.job_id, poll_s=services.job_poll_s)


def end_jobs(services: Services, intent: Intent) -> list[JobMetadata]:
    """Wait until all jobs of the attempt have ended. Fence each recorded id that has no job. Return the other jobs.

    A try that recorded such an id may only sleep, and would start the job after the attempt has ended.
    """
    jobs = services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s)
    not_made = set(intent.jobs) - {job.job_id for job in jobs}
    for job_id in not_made:
        services.warehouse.fence_job_id(job_id)
    services.warehouse.wait_for_jobs(not_made, poll_s=services.job_poll_s)  # one may have been made meanwhile
    return jobs


def query_configuration(
    services: Services, step: str, sql: str, parameters: Mapping[str, tuple[str, str]], **options: Any
) -> dict[str, Any]:
    """The configuration of a query job. `parameters`: name -> (type, value as text). `options`: more query fields.

    The text of an `ARRAY<…>` has the values with commas between them.

    `parameterMode` is left out, because BigQuery's client library, which Airflow's operators use too, adds it.
    """
    return {
        "query": {
            "query": sql,
            "useLegacySql": False,
            "useQueryCache": False,
            "queryParameters": [
                {"name": name, **_parameter(kind, value)} for name, (kind, value) in parameters.items()
            ],
            **options,
        },
        "labels": job_labels(services, step),
    }


def _parameter(kind: str, value: str) -> dict[str, Any]:
    if not kind.startswith("ARRAY<"):
        return {"parameterType": {"type": kind}, "parameterValue": {"value": value}}
    element = {"type": kind.removeprefix("ARRAY<").removesuffix(">")}
    values = [{"value": one} for one in value.split(",") if one]
    return {"parameterType": {"type": "ARRAY", "arrayType": element}, "parameterValue": {"arrayValues": values}}


def external_table(name: str, uris: Iterable[str]) -> dict[str, Any]:
    """The `tableDefinitions` of a query in which `name` is a temporary external table over Parquet files."""
    return {name: {"sourceFormat": "PARQUET", "sourceUris": list(uris), "parquetOptions": PARQUET_OPTIONS}}


def limited_query_configuration(
    services: Services, step: str, sql: str, parameters: Mapping[str, tuple[str, str]], **options: Any
) -> dict[str, Any]:
    """The configuration of an SQL engine's query, for which BigQuery bills at most the feed's `max_bytes_billed`.

    Raises CheckFailed when a dry run, which is free, estimates more. A dry run does not estimate a script; BigQuery
    stops a script when it reaches the limit.
    """
    limit = services.feed.max_bytes_billed
    configuration = query_configuration(services, step, sql, parameters, **options)
    try:
        estimate = services.warehouse.jobs.dry_run_bytes(configuration)
    except JobFailed as error:
        if not error.is_invalid_input:
            raise
        estimate = 0  # the job that runs the query fails with the reason
    if estimate > limit:
        raise CheckFailed(
            f"Step [{step}] would read {price_text(estimate)}, more than [max_bytes_billed] allows: [{limit}] bytes. "
            f"Target was not changed. Raise [max_bytes_billed] in the feed's file, or publish with engine [spark]."
        )
    return with_billing_limit(configuration, limit)


def with_billing_limit(configuration: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The query's configuration with a limit of bytes billed. BigQuery fails a query that would exceed it, unbilled.

    Do not dry-run it: BigQuery's documentation does not say whether a dry run fails at the limit, too.
    """
    return {**configuration, "query": {**configuration["query"], "maximumBytesBilled": str(limit)}}


def load_configuration(
    services: Services, step: str, uris: list[str], table: str, columns: Iterable[Column], **options: Any
) -> dict[str, Any]:
    """The configuration of a load job of Parquet files into an existing table or partition.

    The job replaces all rows, but keeps policies, constraints and description. `table`: its name, for a partition
    `NAME$YYYYMMDD`. `columns`: the table's columns. If one of them is DATETIME, the job states them as its schema:
    without a schema BigQuery reads a DATETIME as a TIMESTAMP. `options`: further fields of the load; they may replace
    the fields that are set here.
    """
    columns = tuple(columns)
    if _has_datetime(columns):
        options["schema"] = {"fields": [schema_field(column) for column in columns]}
    return {
        "load": {
            "sourceUris": uris,
            "sourceFormat": "PARQUET",
            "destinationTable": table_reference(services, table),
            "createDisposition": "CREATE_NEVER",
            "writeDisposition": "WRITE_TRUNCATE_DATA",
            "parquetOptions": PARQUET_OPTIONS,
            **options,
        },
        "labels": job_labels(services, step),
    }


def _has_datetime(columns: Iterable[Column]) -> bool:
    return any(column.type == "DATETIME" or _has_datetime(column.fields) for column in columns)


def job_labels(services: Services, step: str) -> dict[str, str]:
    """Labels by which the jobs of a feed and a step are found in lists of jobs and on the bill.

    Dataproc's reference asks for RFC 1035: no `_`.
    """
    return {"dedup-clone-feed": services.feed.feed.replace("_", "-").strip("-"), "dedup-clone-step": step}


def table_reference(services: Services, table: str) -> dict[str, str]:
    """A table of the dataset, as the REST API names it."""
    names = services.names
    return {"projectId": names.project, "datasetId": names.dataset, "tableId": table}


def count_by_date(
    services: Services, sql: str, parameters: Mapping[str, tuple[str, str]]
) -> tuple[dict[date, int] | None, int]:
    """The `found_rows` of each `found_day` of a query, and the bytes that it reads.

    If those are more than COUNT_LIMIT, the query is not run, and there are no numbers. Raises JobFailed.
    """
    configuration = query_configuration(services, "preview", sql, parameters)
    size = services.warehouse.jobs.dry_run_select_bytes(configuration)
    if size > COUNT_LIMIT:
        return None, size
    found = services.warehouse.jobs.select(configuration, max_rows=MAX_RANGE_DAYS).first_rows
    return {row["found_day"]: int(row["found_rows"]) for row in found}, size
