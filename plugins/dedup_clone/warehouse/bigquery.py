"""Asks BigQuery for facts and runs the few statements that are not operators of a DAG."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dedup_clone.contract.table import TableContract
from dedup_clone.warehouse.columns import column_of
from dedup_clone.warehouse.facts import JobFacts, Observation, PartitionFacts, Policies, TableFacts
from dedup_clone.warehouse.jobs import BRIEF_POLL_S, Jobs, pauses
from dedup_clone.warehouse.sql_files import TableNames, render

if TYPE_CHECKING:
    from google.cloud.bigquery import Client, Table

T = TypeVar("T")
DEFAULT_TIME_TRAVEL_HOURS = 7 * 24
MILLISECONDS_PER_DAY = 24 * 60 * 60 * 1000


class Warehouse:
    """The dataset of one deployment."""

    def __init__(self, client: Client, *, project: str, dataset: str, location: str, sql_folder: Path) -> None:
        self._client = client
        self._project = project
        self._dataset = dataset
        self._location = location
        self._sql_folder = sql_folder
        self.jobs = Jobs(client, project=project, location=location)

    def table_names(self, staging: str, target: str) -> TableNames:
        return TableNames(self._project, self._dataset, staging, target)

    def of_dataset(self, dataset: str) -> Warehouse:
        """The same project and location, another dataset."""
        return Warehouse(
            self._client, project=self._project, dataset=dataset, location=self._location, sql_folder=self._sql_folder
        )

    @property
    def location(self) -> str:
        return self._location

    def table(self, name: str) -> TableFacts | None:
        """The table's facts, None when it does not exist. Free of charge."""
        from google.api_core.exceptions import NotFound

        try:
            return _facts(self._client.get_table(f"{self._project}.{self._dataset}.{name}"))
        except NotFound:
            return None

    def create_staging(self, names: TableNames, table: TableContract) -> None:
        """Create staging as the feed declares it, unless it exists."""
        self._run(render(self._sql_folder, "ddl/create_staging.sql", names=names, table=table), [])

    def drop_table(self, name: str) -> None:
        """Drop a table of the dataset. Harmless when there is none."""
        self._client.delete_table(f"{self._project}.{self._dataset}.{name}", not_found_ok=True)

    def render(self, name: str, *, names: TableNames, table: TableContract, has_parent: bool = True) -> str:
        """A statement of sql/ for one feed."""
        return render(self._sql_folder, name, names=names, table=table, has_parent=has_parent)

    def observe(self, names: TableNames, table_name: str) -> Observation:
        """The table's facts and its partitions. One metadata query, 10 MB billed, no table data read."""
        from google.cloud.bigquery import ScalarQueryParameter

        table = self.table(table_name)
        if table is None:
            raise LookupError(f"Table [{self._project}.{self._dataset}.{table_name}] does not exist.")
        job = self._run(
            render(self._sql_folder, "checks/partitions.sql", names=names),
            [ScalarQueryParameter("table_name", "STRING", table_name)],
        )
        rows = list(job.result())
        partitions = tuple(
            PartitionFacts(row["partition_id"], row["total_rows"], row["last_modified_time"])
            for row in rows
            if row["partition_id"] is not None
        )
        return Observation(table, partitions, rows[0]["observed_at"], job.total_bytes_billed or 0)

    def time_travel_window(self) -> timedelta:
        """How far back the dataset's tables can be read."""
        dataset = self._client.get_dataset(f"{self._project}.{self._dataset}")
        return timedelta(hours=int(dataset.max_time_travel_hours or DEFAULT_TIME_TRAVEL_HOURS))

    def policies(self, table_name: str) -> Policies:
        """The table's row and column policies. Two metadata calls, free of charge."""
        path = f"/projects/{self._project}/datasets/{self._dataset}/tables/{table_name}"
        # The client library has no method for row access policies.
        request: Any = self._client._connection.api_request
        listed = request(method="GET", path=f"{path}/rowAccessPolicies")
        schema = self._client.get_table(f"{self._project}.{self._dataset}.{table_name}").schema
        return Policies(
            row_access=tuple(p["rowAccessPolicyReference"]["policyId"] for p in listed.get("rowAccessPolicies", [])),
            column_tags={f.name: f.policy_tags.names[0] for f in schema if f.policy_tags and f.policy_tags.names},
        )

    def materialized_views_of(self, table_name: str) -> list[str]:
        """Names of materialised views in the dataset that read the table: they break when it is replaced."""
        dataset = f"{self._project}.{self._dataset}"
        dependents = []
        for item in self._client.list_tables(dataset):
            if item.table_type == "MATERIALIZED_VIEW":
                view = self._client.get_table(item.reference)
                if f"{self._dataset}.{table_name}" in (view.mview_query or "").replace("`", ""):
                    dependents.append(item.table_id)
        return dependents

    def job(self, job_id: str) -> JobFacts | None:
        """A job's state, None when BigQuery never heard of it."""
        from google.api_core.exceptions import NotFound

        try:
            job = self._client.get_job(job_id, project=self._project, location=self._location)
        except NotFound:
            return None
        return JobFacts(
            job_id=job_id,
            kind=job.job_type,
            ended=job.state == "DONE",
            error=None if not job.error_result else job.error_result.get("message", "unknown error"),
            started_at=job.started,
            ended_at=job.ended,
            bytes_processed=getattr(job, "total_bytes_processed", None) or 0,
            bytes_billed=getattr(job, "total_bytes_billed", None) or 0,
            slot_ms=getattr(job, "slot_millis", None) or 0,
        )

    def occupy_job_id(self, job_id: str) -> None:
        """Make a job that only fails under this id, unless there is one: nobody can make another any more.

        It fails, so that a task which is not dead after all takes it for a failed try and asks for the lease again.
        """
        from google.api_core.exceptions import Conflict
        from google.cloud.bigquery import QueryJobConfig

        if self.job(job_id) is None:
            with contextlib.suppress(Conflict):
                config = QueryJobConfig(labels={"dedup_clone_step": "fence"}, use_query_cache=False)
                self._client.query(
                    "SELECT ERROR('this job id is occupied: its run was taken for dead')",
                    job_config=config,
                    job_id=job_id,
                    job_retry=None,
                    location=self._location,
                    project=self._project,
                )

    def wait_for_jobs(self, job_ids: Iterable[str], *, poll_s: float) -> list[JobFacts]:
        """Wait until every job that BigQuery knows of has ended, however it ends."""
        ended = []
        for job_id in job_ids:
            facts, pause = self.job(job_id), pauses(poll_s)
            while facts is not None and not facts.ended:
                time.sleep(next(pause))
                facts = self.job(job_id)
            if facts is not None:
                ended.append(facts)
        return ended

    def load_status(self, rows: list[dict[str, Any]], table: str) -> None:
        """Replace the readers' status table by `rows`, with a load job: free, and no query reads a table."""
        from google.cloud.bigquery import CreateDisposition, LoadJobConfig, SchemaField, WriteDisposition

        types = {"feed": "STRING", "generation": "INTEGER", "snapshot_id": "INTEGER"}
        schema = [SchemaField(name, types.get(name, "TIMESTAMP")) for name in rows[0]]
        config = LoadJobConfig(
            schema=schema,
            write_disposition=WriteDisposition.WRITE_TRUNCATE,
            create_disposition=CreateDisposition.CREATE_IF_NEEDED,
        )
        destination = f"{self._project}.{self._dataset}.{table}"
        job = self._client.load_table_from_json(
            rows, destination, job_config=config, location=self._location, project=self._project
        )
        self.jobs.wait(job.job_id, poll_s=BRIEF_POLL_S)

    def append_row(self, table: str, schema: list[dict[str, Any]], row: dict[str, Any], job_id: str) -> None:
        """Append one row by a load job, which is free; made once only, whoever asks again."""
        from google.api_core.exceptions import Conflict
        from google.cloud.bigquery import CreateDisposition, LoadJobConfig, SchemaField, WriteDisposition

        config = LoadJobConfig(
            schema=[SchemaField.from_api_repr(field) for field in schema],
            write_disposition=WriteDisposition.WRITE_APPEND,
            create_disposition=CreateDisposition.CREATE_IF_NEEDED,
        )
        with contextlib.suppress(Conflict):
            self._client.load_table_from_json(
                [row],
                f"{self._project}.{self._dataset}.{table}",
                job_id=job_id,
                job_config=config,
                location=self._location,
                project=self._project,
            )
        self.jobs.wait(job_id, poll_s=BRIEF_POLL_S)

    def _run(self, sql: str, parameters: list[Any]) -> Any:
        from google.cloud.bigquery import QueryJobConfig

        job = self._client.query(
            sql,
            job_config=QueryJobConfig(query_parameters=parameters, use_query_cache=False),
            location=self._location,
            project=self._project,
        )
        job.result()
        return job


def _facts(table: Table) -> TableFacts:
    properties = table.to_api_repr()
    partitioning, clone = table.time_partitioning, table.clone_definition
    expiration_ms = None if partitioning is None else partitioning.expiration_ms
    return TableFacts(
        name=table.table_id,
        columns=tuple(column_of(field) for field in table.schema),
        rows=table.num_rows or 0,
        size=table.num_bytes or 0,
        partition_column=None if partitioning is None else partitioning.field,
        expiration_days=None if expiration_ms is None else expiration_ms / MILLISECONDS_PER_DAY,
        cluster_by=tuple(table.clustering_fields or ()),
        labels=dict(table.labels),
        has_streaming_buffer="streamingBuffer" in properties,
        clone_of=None if clone is None else _known(clone.base_table_reference).table_id,
        clone_time=None if clone is None else clone.clone_time,
        created_at=_known(table.created),
        kind=table.table_type or "",
        granularity=None if partitioning is None else partitioning.type_,
        location=table.location or "",
        version=f"{table.etag} {table.modified}",
    )


def _known(value: T | None) -> T:
    if value is None:
        raise LookupError("BigQuery described a table without its creation time or clone source.")
    return value
