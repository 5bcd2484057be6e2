"""Creates BigQuery jobs with ids that the caller chooses, and reads their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import JobFailed
from dedup_clone.contract.table import Column
from dedup_clone.warehouse.metadata import contract_column

if TYPE_CHECKING:
    from google.api_core.exceptions import GoogleAPICallError
    from google.api_core.retry import Retry
    from google.cloud.bigquery import Client

FIRST_POLL_S = 0.05
BRIEF_POLL_S = 0.4  # for jobs that take seconds; the client library polls once a second
BRIEF_TIMEOUT_S = 60.0  # for loads of small tables: no publish waits longer for them
RESULT_REPEATED_FOR_S = 15.0  # a refused request for a query's result


def poll_intervals(poll_s: float) -> Iterator[float]:
    """Seconds between polls of a job: short at first, because most jobs are short, then doubled up to `poll_s`."""
    interval = min(FIRST_POLL_S, poll_s)
    while True:
        yield interval
        interval = min(2 * interval, poll_s)


def result_retry() -> Retry:
    """How the client repeats a refused request for the result of a query: pass it to `QueryJob.result`.

    A job that failed for a rate limit looks to the client like such a request. By default the client repeats it for ten
    minutes before it runs the statement again.
    """
    from google.cloud.bigquery import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(RESULT_REPEATED_FOR_S)


@dataclass(frozen=True)
class QueryResult:
    """The result of a query: the number of its rows, the first of them, and the bytes billed."""

    row_count: int
    first_rows: tuple[Mapping[str, Any], ...]
    bytes_billed: int


class Jobs:
    """The jobs of one project and location."""

    def __init__(self, client: Client, *, project: str, location: str) -> None:
        self._client = client
        self._project = project
        self._location = location

    def start(self, job_id: str, configuration: Mapping[str, Any]) -> None:
        """Create the job, unless it exists. It exists if an earlier call created it and BigQuery's answer was lost."""
        from google.api_core.exceptions import Conflict
        from google.cloud.bigquery import ExtractJob, LoadJob, QueryJob

        kinds: dict[str, Any] = {"query": QueryJob, "load": LoadJob, "extract": ExtractJob}
        (kind,) = [kinds[name] for name in configuration if name in kinds]
        reference = {"projectId": self._project, "jobId": job_id, "location": self._location}
        job = kind.from_api_repr({"jobReference": reference, "configuration": dict(configuration)}, self._client)
        try:
            job._begin()  # client.query and client.load_table_from_uri also call this, but accept fewer settings
        except Conflict:  # the id is in use; get_job raises NotFound if its job is in another location
            self._client.get_job(job_id, project=self._project, location=self._location)

    def rows(self, job_id: str) -> Iterator[Mapping[str, Any]]:
        """The result rows of a query job that succeeded. BigQuery retains them for a day."""
        job: Any = self._client.get_job(job_id, project=self._project, location=self._location)
        yield from job.result()

    def select(self, configuration: Mapping[str, Any], *, max_rows: int) -> QueryResult:
        """Run a query job, and return its result with at most `max_rows` rows. Raises JobFailed."""
        from google.api_core.exceptions import GoogleAPICallError

        try:
            job = self._query(configuration)
            found = job.result(max_results=max_rows, retry=result_retry())
        except GoogleAPICallError as error:
            raise _job_failed(error) from error
        return QueryResult(int(found.total_rows), tuple(dict(row) for row in found), job.total_bytes_billed or 0)

    def dry_run_bytes(self, configuration: Mapping[str, Any]) -> int:
        """The bytes that a query job would read, by a dry run (free of charge). Raises JobFailed if it is rejected."""
        return int(self._dry_run(configuration).total_bytes_processed or 0)

    def dry_run_select_bytes(self, configuration: Mapping[str, Any]) -> int:
        """As `dry_run_bytes`. Raises JobFailed also when the query is not one SELECT."""
        job = self._dry_run(configuration)
        if job.statement_type != "SELECT":
            message = f"the statement is [{job.statement_type}], expected [SELECT]"
            raise JobFailed(message, message=message, reason="invalidQuery")
        return int(job.total_bytes_processed or 0)

    def dry_run_schema(self, configuration: Mapping[str, Any]) -> tuple[Column, ...]:
        """The result columns of a query job, by a dry run (free of charge). Raises JobFailed if it is rejected."""
        return tuple(contract_column(field) for field in self._dry_run(configuration).schema or ())

    def _dry_run(self, configuration: Mapping[str, Any]) -> Any:
        from google.api_core.exceptions import GoogleAPICallError

        try:
            return self._query({**configuration, "dryRun": True})
        except GoogleAPICallError as error:
            raise _job_failed(error) from error

    def _query(self, configuration: Mapping[str, Any]) -> Any:
        from google.cloud.bigquery import QueryJobConfig

        config: Any = QueryJobConfig.from_api_repr(dict(configuration))
        sql = configuration["query"]["query"]
        return self._client.query(sql, job_config=config, location=self._location, project=self._project)


def _job_failed(error: GoogleAPICallError) -> JobFailed:
    """The JobFailed for a query's `error`. It has BigQuery's message, without the request that the client adds."""
    first = error.errors[0] if error.errors else {}
    reason, message = first.get("reason", "unknown"), str(first.get("message", error.message))
    return JobFailed(f"BigQuery rejected a query ({reason}): {message}", message=message, reason=reason)
