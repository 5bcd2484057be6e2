"""The warehouse: reads metadata from BigQuery, and runs the statements and loads that are no Airflow tasks."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import JobFailed
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.settings.table_settings import OptionSettings
from dedup_clone.warehouse.append_rows import RowAppender, open_write_client
from dedup_clone.warehouse.jobs import Jobs, poll_intervals, result_retry
from dedup_clone.warehouse.materialized_views import read_materialized_views, reads_table
from dedup_clone.warehouse.metadata import (
    JobMetadata,
    Observation,
    PartitionMetadata,
    Policies,
    TableMetadata,
    Watermark,
    job_metadata,
    table_metadata,
    to_milliseconds,
)
from dedup_clone.warehouse.row_messages import RowMessages
from dedup_clone.warehouse.row_policies import describe_policies, list_policies, missing_access, policy_id
from dedup_clone.warehouse.sql_files import TableNames, render
from dedup_clone.warehouse.table_alterations import REPEATED_FOR_S, TableAlterations
from dedup_clone.warehouse.table_options import policy_tags, table_options

if TYPE_CHECKING:
    from google.cloud.bigquery import Client, TableReference

DEFAULT_TIME_TRAVEL_HOURS = 7 * 24


class Warehouse:
    """The BigQuery dataset of one deployment, with its tables and jobs."""

    def __init__(self, client: Client, *, project: str, dataset: str, location: str, sql_folder: Path) -> None:
        self._client = client
        self._project = project
        self._dataset = dataset
        self._location = location
        self.render = partial(render, sql_folder)
        self._cached_views: dict[str, str] | None = None
        self.jobs = Jobs(client, project=project, location=location)
        self.alterations = TableAlterations(client, project=project, dataset=dataset)

    def table_names(self, staging: str, target: str) -> TableNames:
        """The identifiers of a feed's tables in statements, from the names of staging and target in the dataset."""
        return TableNames(self._project, self._dataset, staging, target)

    @property
    def location(self) -> str:
        return self._location

    def table(self, name: str) -> TableMetadata | None:
        """The table's metadata; None when it does not exist. Free of charge."""
        from google.api_core.exceptions import NotFound

        try:
            return table_metadata(self._client.get_table(f"{self._project}.{self._dataset}.{name}"))
        except NotFound:
            return None

    def list_tables(self, prefix: str) -> list[str]:
        """The names of the dataset's tables that begin with `prefix`. Free of charge."""
        listed = self._client.list_tables(f"{self._project}.{self._dataset}")
        return [found.table_id for found in listed if found.table_id.startswith(prefix)]

    def create_staging(self, names: TableNames, table: TableContract, options: OptionSettings) -> None:
        """Create staging with the feed's schema, unless it exists."""
        self._run(self.render("ddl/create_staging.sql", names=names, table=table, options=options), [])

    def create_status_view(self, names: TableNames) -> None:
        """Create the view of what readers see of each feed, unless it exists. Free of charge.

        A refused statement is repeated for REPEATED_FOR_S.
        """
        self._run(self.render("reporting/create_status.sql", names=names), [], repeated_for_s=REPEATED_FOR_S)

    def widen_columns(self, names: TableNames, columns: Iterable[Column]) -> None:
        """Give columns of staging their declared, wider types: one free statement for each."""
        for column in columns:
            self._run(self.render("ddl/widen_column.sql", names=names, column=column), [])

    def observe(self, names: TableNames, table_name: str) -> Observation:
        """The table's metadata and its partitions. One metadata query: 10 MB billed, no table data read.

        Raises LookupError if the table does not exist.
        """
        from google.cloud.bigquery import ScalarQueryParameter

        table = self.table(table_name)
        if table is None:
            raise LookupError(
                f"Table [{self._project}.{self._dataset}.{table_name}] does not exist: restore it "
                "(docs/runbook.md, the dataset or a table is deleted), then clear the run from its first task."
            )
        sql = self.render("checks/partitions.sql", names=names)
        rows = list(self._run(sql, [ScalarQueryParameter("table_name", "STRING", table_name)]))
        partitions = tuple(
            PartitionMetadata(row["partition_id"], row["total_rows"], row["last_modified_time"])
            for row in rows
            if row["partition_id"] is not None
        )
        return Observation(table, partitions, to_milliseconds(rows[0]["observed_at"]))

    def open_stream(self, table: str, columns: Iterable[Column], require_writer: Callable[[], object]) -> RowAppender:
        """Return an appender, which streams rows with these columns into the table. `require_writer`: see there."""
        path = f"projects/{self._project}/datasets/{self._dataset}/tables/{table}"
        return RowAppender(open_write_client(self._client._credentials), path, RowMessages(columns), require_writer)

    def watermark(self, names: TableNames, table_name: str) -> Watermark:
        """How far BigQuery has applied the changes streamed into the table, which must exist."""
        from google.cloud.bigquery import ScalarQueryParameter

        sql = self.render("engines/cdc/apply_watermark.sql", names=names)
        (row,) = self._run(sql, [ScalarQueryParameter("table_name", "STRING", table_name)])
        return Watermark(row["observed_at"], row["applied_until"])

    def time_travel_window(self) -> timedelta:
        """How far back the dataset's tables can be read."""
        dataset = self._client.get_dataset(f"{self._project}.{self._dataset}")
        return timedelta(hours=int(dataset.max_time_travel_hours or DEFAULT_TIME_TRAVEL_HOURS))

    def policies(self, table_name: str) -> Policies:
        """The table's row access policies and policy tags. Metadata calls, free of charge."""
        resource = self._client.get_table(self._reference(table_name)).to_api_repr()
        return Policies(
            row_access=tuple(policy_id(policy) for policy in list_policies(self._client, self._reference(table_name))),
            column_tags=policy_tags(table_options(resource)),
        )

    def row_policies(self, table_name: str) -> dict[str, str]:
        """The filter of each row access policy of the table, and whom it lets read, by the policy's name."""
        return describe_policies(self._client, self._reference(table_name))

    def missing_access(self, table_name: str) -> list[str]:
        """What this account lacks to clone the table as of a past time, one text for each; empty if it may clone it."""
        return missing_access(self._client, self._reference(table_name))

    def materialized_views_of(self, table_name: str) -> list[str]:
        """The names of the materialized views that read the table. They break when the table is replaced."""
        views = self._cached_views
        if views is None:
            views = read_materialized_views(self._client, self._project, self._location)
        return [name for name, sql in views.items() if reads_table(sql, self._project, self._dataset, table_name)]

    def cache_materialized_views(self) -> None:
        """Read all materialized views once, before a check of many feeds: later calls of this object use the result."""
        self._cached_views = read_materialized_views(self._client, self._project, self._location)

    def job(self, job_id: str) -> JobMetadata | None:
        """The job's metadata; None when there is no job with that id."""
        from google.api_core.exceptions import NotFound

        try:
            job = self._client.get_job(job_id, project=self._project, location=self._location)
        except NotFound:
            return None
        return job_metadata(job)

    def child_jobs(self, job_id: str) -> list[JobMetadata]:
        """The jobs of the statements of a script, in no particular order."""
        children = self._client.list_jobs(project=self._project, parent_job=job_id)
        return [job_metadata(child) for child in children if child.location == self._location]

    def fence_job_id(self, job_id: str) -> None:
        """Create a failing job with this id, unless the id is in use, so that no other job can have the id.

        If the task that recorded the id is alive after all, it finds a failed job under the id, and fails. That does no
        harm, because its run has lost the lease or has another try, which commits.
        """
        from google.api_core.exceptions import Conflict
        from google.cloud.bigquery import QueryJobConfig

        if self.job(job_id) is None:
            with contextlib.suppress(Conflict):
                config = QueryJobConfig(labels={"dedup-clone-step": "fence"}, use_query_cache=False)
                self._client.query(
                    "SELECT ERROR('this job id is occupied: its task was taken for dead')",
                    job_config=config,
                    job_id=job_id,
                    job_retry=None,
                    location=self._location,
                    project=self._project,
                )

    def wait_for_jobs(self, job_ids: Iterable[str], *, poll_s: float, timeout_s: float = math.inf) -> list[JobMetadata]:
        """Wait until all existing jobs among `job_ids` have ended, successfully or not; return their metadata.

        `poll_s`: the longest time between two polls, in seconds. Raises TimeoutError when the jobs take longer than
        `timeout_s`.
        """
        ended, deadline = [], time.monotonic() + timeout_s
        for job_id in job_ids:
            job, intervals = self.job(job_id), poll_intervals(poll_s)
            while job is not None and not job.ended:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"BigQuery job [{job_id}] still runs after {timeout_s:.0f} s: "
                        "the watchdog's next check looks again."
                    )
                time.sleep(next(intervals))
                job = self.job(job_id)
            if job is not None:
                ended.append(job)
        return ended

    def wait_for_job(self, job_id: str, *, poll_s: float) -> JobMetadata:
        """Wait until the job has ended. Raises JobFailed with BigQuery's reason if it failed."""
        (ended,) = self.wait_for_jobs([job_id], poll_s=poll_s)
        if ended.error is not None:
            raise JobFailed(
                f"BigQuery job [{job_id}] failed ({ended.reason}): {ended.error}",
                message=ended.error,
                reason=ended.reason or "unknown",
            )
        return ended

    def start_load(self, job_id: str, table: str, schema: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
        """Start a load job, free of charge, that appends the rows to the table.

        The table is created if it is absent, and gets columns of `schema` that it lacks. If the job id is in use,
        nothing is started.
        """
        from google.api_core.exceptions import Conflict
        from google.cloud.bigquery import (
            CreateDisposition,
            LoadJobConfig,
            SchemaField,
            SchemaUpdateOption,
            WriteDisposition,
        )

        config = LoadJobConfig(
            schema=[SchemaField.from_api_repr(field) for field in schema],
            write_disposition=WriteDisposition.WRITE_APPEND,
            schema_update_options=[SchemaUpdateOption.ALLOW_FIELD_ADDITION],
            create_disposition=CreateDisposition.CREATE_IF_NEEDED,
        )
        destination = f"{self._project}.{self._dataset}.{table}"
        with contextlib.suppress(Conflict):
            self._client.load_table_from_json(
                rows, destination, job_id=job_id, job_config=config, location=self._location, project=self._project
            )

    def _reference(self, table_name: str) -> TableReference:
        from google.cloud.bigquery import TableReference

        return TableReference.from_string(f"{self._project}.{self._dataset}.{table_name}")

    def _run(self, sql: str, parameters: list[Any], *, repeated_for_s: float = 1200.0) -> Any:
        """Run a statement, and repeat it for `repeated_for_s` while BigQuery refuses it for a passing reason.

        Returns its rows. Usually one request does it, because the statements are short.
        """
        from google.cloud.bigquery import QueryJobConfig
        from google.cloud.bigquery.retry import DEFAULT_JOB_RETRY

        return self._client.query_and_wait(
            sql,
            job_config=QueryJobConfig(query_parameters=parameters, use_query_cache=False),
            location=self._location,
            project=self._project,
            retry=result_retry(),
            job_retry=DEFAULT_JOB_RETRY.with_timeout(repeated_for_s),
        )
