"""BigQuery jobs under ids that the caller chooses: made, waited for, read. The one place that builds client jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import JobFailed
from dedup_clone.contract.table import Column
from dedup_clone.warehouse.columns import column_of

if TYPE_CHECKING:
    from google.cloud.bigquery import Client

# What BigQuery says of files or statements that will fail the same way whenever they are tried.
REASONS_OF_CONTENT = frozenset({"invalid", "invalidQuery"})
FIRST_LOOK_S = 0.05
BRIEF_POLL_S = 0.4  # the longest pause for jobs of seconds; the client library would ask once a second


def pauses(poll_s: float) -> Iterator[float]:
    """Seconds between looks at a job: short at first, for most jobs are, then doubling up to `poll_s`."""
    pause = min(FIRST_LOOK_S, poll_s)
    while True:
        yield pause
        pause = min(2 * pause, poll_s)


@dataclass(frozen=True)
class EndedJob:
    """A job that ended well. Bytes as BigQuery counts them; a load or an extract processes none."""

    job_id: str
    bytes_processed: int
    seconds: float


class Jobs:
    """The jobs of one project and location."""

    def __init__(self, client: Client, *, project: str, location: str) -> None:
        self._client = client
        self._project = project
        self._location = location

    def start(self, job_id: str, configuration: Mapping[str, Any]) -> None:
        """Make the job. Harmless when a job of that id was made already, by a call whose answer was lost."""
        from google.api_core.exceptions import Conflict
        from google.cloud.bigquery import ExtractJob, LoadJob, QueryJob

        kinds: dict[str, Any] = {"query": QueryJob, "load": LoadJob, "extract": ExtractJob}
        (kind,) = [kinds[name] for name in configuration if name in kinds]
        reference = {"projectId": self._project, "jobId": job_id, "location": self._location}
        job = kind.from_api_repr({"jobReference": reference, "configuration": dict(configuration)}, self._client)
        try:
            job._begin()  # what client.query and client.load_table_from_uri end in; they know less of the REST API
        except Conflict:
            self._client.get_job(job_id, project=self._project, location=self._location)

    def wait(self, job_id: str, *, poll_s: float) -> EndedJob:
        """Wait until the job has ended. Raises JobFailed with BigQuery's reason when it failed."""
        job = self._client.get_job(job_id, project=self._project, location=self._location)
        pause = pauses(poll_s)
        while job.state != "DONE":
            time.sleep(next(pause))
            job = self._client.get_job(job_id, project=self._project, location=self._location)
        if job.error_result:
            reason = job.error_result.get("reason", "unknown")
            message = job.error_result.get("message", "no message")
            raise JobFailed(
                f"BigQuery job [{job_id}] failed ({reason}): {message}",
                message=message,
                by_content=reason in REASONS_OF_CONTENT,
            )
        return EndedJob(
            job_id=job_id,
            bytes_processed=getattr(job, "total_bytes_processed", None) or 0,
            seconds=(job.ended - job.started).total_seconds() if job.started and job.ended else 0.0,
        )

    def rows(self, job_id: str) -> Iterator[Mapping[str, Any]]:
        """The result of a query job that ended well; BigQuery keeps it for a day."""
        job: Any = self._client.get_job(job_id, project=self._project, location=self._location)
        yield from job.result()

    def bytes_of(self, configuration: Mapping[str, Any]) -> int:
        """The bytes that a query job would read: a dry run, free, made under no id."""
        from google.cloud.bigquery import QueryJobConfig

        config: Any = QueryJobConfig.from_api_repr({**configuration, "dryRun": True})
        sql = configuration["query"]["query"]
        job: Any = self._client.query(sql, job_config=config, location=self._location, project=self._project)
        return int(job.total_bytes_processed or 0)

    def schema_of(self, sql: str, table_definitions: Mapping[str, Any]) -> tuple[Column, ...]:
        """The columns that a query over external files would have: a dry run, free, made under no id.

        Raises JobFailed when BigQuery cannot read the files.
        """
        from google.api_core.exceptions import BadRequest
        from google.cloud.bigquery import QueryJobConfig

        config = QueryJobConfig(dry_run=True, use_query_cache=False)
        config._properties["query"]["tableDefinitions"] = dict(table_definitions)
        try:
            job = self._client.query(sql, job_config=config, location=self._location, project=self._project)
        except BadRequest as error:
            message = str(error.errors[0].get("message", error.message)) if error.errors else error.message
            raise JobFailed(f"BigQuery refused a dry run: {message}", message=message, by_content=True) from error
        return tuple(column_of(field) for field in job.schema or ())
