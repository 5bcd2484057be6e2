"""The servers that are tested, and a throwaway dataset with two buckets on them, which limits what queries cost."""

from __future__ import annotations

import io
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.api_core.exceptions import BadRequest, GoogleAPIError, InternalServerError, NotFound
from google.api_core.future.polling import DEFAULT_POLLING
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery, storage

from bigquery_standin.client import Control

EXPIRATION_DAYS = 730
MILLISECONDS_PER_DAY = 86_400_000
MAX_BYTES_PER_STATEMENT = 200 << 20  # BigQuery refuses a statement that would bill more
BUDGET_BYTES = 80 << 30  # 0.50 USD: `query` starts nothing once its queries have billed more
LABELS = {"dedup_clone_probe": "throwaway"}
JOB_TIMEOUT_S = 600
MANIFEST = "FILE_SET_SPEC_TYPE_NEW_LINE_DELIMITED_MANIFEST"  # the job's URI names a list of URIs

Row = tuple[date | None, int, int]  # day, id, number


@dataclass(frozen=True)
class Servers:
    """The clients, project and location of a test. `policy_tag`: a tag that tests may put on columns, if there is one.

    `control`: the clock and the faults of the stand-in; None for a live project.
    """

    bigquery: bigquery.Client
    storage: storage.Client
    project: str
    location: str
    policy_tag: str | None
    control: Control | None

    def sleep(self, seconds: float) -> None:
        """Let this time pass on the server's clock."""
        if self.control is None:
            time.sleep(seconds)
        else:
            self.control.advance(seconds=seconds)


class Sandbox:
    """The throwaway dataset and two buckets, and what tests do in them.

    `name`: the dataset's name; `dataset`: PROJECT.NAME. `bucket`: has the files that tests load, and is the state
    bucket of publishes. `landing_bucket`: that of publishes. `notes`: sentences for the report. Tables have the columns
    day DATE, id INT64 and number INT64, are partitioned by day and, by default, clustered by id.
    """

    def __init__(self, servers: Servers, name: str) -> None:
        self.servers = servers
        self.client, self.storage = servers.bigquery, servers.storage
        self.name = name
        self.dataset = f"{servers.project}.{name}"
        self.bucket = servers.storage.bucket(name.replace("_", "-"))
        self.landing_bucket = servers.storage.bucket(f"{self.bucket.name}-landing")
        self.today = datetime.now(UTC).date()
        self.notes: list[str] = []
        self._billed_bytes = 0

    @property
    def clean_up_command(self) -> str:
        """Deletes what a killed probe has left."""
        buckets = " ".join(f"gs://{bucket.name}" for bucket in (self.bucket, self.landing_bucket))
        return f"bq rm -r -f -d {self.servers.project}:{self.name}; gcloud storage rm --recursive {buckets}"

    def days_ago(self, days: int) -> date:
        return self.today - timedelta(days=days)

    def table(self, name: str) -> str:
        """The full name of a table (PROJECT.DATASET.TABLE)."""
        return f"{self.dataset}.{name}"

    def new_table(
        self,
        name: str,
        rows: Sequence[Row] = (),
        *,
        expiration_days: int | None = EXPIRATION_DAYS,
        clustering: Sequence[str] = ("id",),
    ) -> str:
        """Make a table with the product's layout, load `rows`, and return its full name.

        `expiration_days`: the days after which a partition expires; None for never.
        """
        columns = {"day": "DATE", "id": "INTEGER", "number": "INTEGER"}
        schema = [bigquery.SchemaField(column, kind) for column, kind in columns.items()]
        table = bigquery.Table(self.table(name), schema=schema)
        expiration_ms = None if expiration_days is None else expiration_days * MILLISECONDS_PER_DAY
        table.time_partitioning = bigquery.TimePartitioning(field="day", expiration_ms=expiration_ms)
        table.clustering_fields = list(clustering)
        table.description, table.labels = "made by the probe", dict(LABELS)
        self.client.create_table(table)
        if rows:
            self.load(self.table(name), rows)
        return self.table(name)

    def make(self, name: str, columns: str, more: str = "") -> str:
        """Make an empty table by DDL, and return its full name. `more`: clauses behind the columns."""
        self.query(f"CREATE TABLE `{self.table(name)}` ({columns}) {more}")
        return self.table(name)

    def upload(self, content: bytes | str | pa.Table | Iterable[Row], name: str = "") -> str:
        """Upload an object, and return its gs:// URI. Tables and rows become a Parquet file.

        `name`: the object's; by default a new one.
        """
        if not isinstance(content, bytes | str | pa.Table):
            arrow = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("number", pa.int64())])
            columns = list(zip(*content, strict=True))
            content = pa.table({f.name: pa.array(c, f.type) for f, c in zip(arrow, columns, strict=True)})
        if isinstance(content, pa.Table):
            stream = io.BytesIO()
            pq.write_table(content, stream)
            content = stream.getvalue()
        name = name or f"{uuid.uuid4().hex}.parquet"
        self.bucket.blob(name).upload_from_string(content)
        return f"gs://{self.bucket.name}/{name}"

    def load(self, table: str, rows: pa.Table | Iterable[Row], disposition: str = "WRITE_TRUNCATE_DATA") -> Any:
        """Load the rows from a file of their own by one load job, and return the job."""
        return self.load_uris(table, [self.upload(rows)], disposition)

    def load_uris(
        self,
        table: str,
        uris: Sequence[str],
        disposition: str = "WRITE_TRUNCATE_DATA",
        *,
        job_id: str | None = None,
        **options: Any,
    ) -> Any:
        """Run one load job of Parquet files into a table that exists, and return it.

        `options`: more fields of the job's configuration, as the REST API names them.
        """
        options = {"sourceFormat": "PARQUET", "writeDisposition": disposition, **options}
        config: Any = bigquery.LoadJobConfig.from_api_repr({"load": options})  # no property sets fileSetSpecType
        job = self.client.load_table_from_uri(
            uris, table, job_config=config, job_id=job_id, location=self.servers.location, project=self.servers.project
        )
        return job.result(timeout=JOB_TIMEOUT_S)

    def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, into: str | None = None, **options: Any
    ) -> Any:
        """Run one statement or script, and return the job. Skips the test when the budget is spent.

        `into`: a table whose rows the query's result replaces. `options`: more of QueryJobConfig.
        """
        if self._billed_bytes > BUDGET_BYTES:
            pytest.skip(f"the queries so far have billed more than [{BUDGET_BYTES}] bytes")
        if into is not None:
            options = {"destination": into, "write_disposition": "WRITE_TRUNCATE_DATA", **options}
        options = {"use_query_cache": False, "maximum_bytes_billed": MAX_BYTES_PER_STATEMENT, **options}
        given = [_parameter(name, value) for name, value in (parameters or {}).items()]
        config = bigquery.QueryJobConfig(query_parameters=given, **options)
        job = self.client.query(sql, job_config=config, location=self.servers.location, project=self.servers.project)
        if config.dry_run:
            return job
        try:
            job.result(timeout=JOB_TIMEOUT_S)
        finally:
            self._billed_bytes += job.total_bytes_billed or 0
        return job

    def rows(self, sql: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> list[tuple[Any, ...]]:
        """The result of a query."""
        return [tuple(row.values()) for row in self.query(sql, parameters, **options).result()]

    def numbers(self, table: str) -> list[int]:
        """The sorted values of the column `number`. Tests tell loads apart by it."""
        return [number for (number,) in self.rows(f"SELECT number FROM `{table}` ORDER BY number")]

    def refused(self, sql: str, words: str = "", **options: Any) -> None:
        """Run a statement that must be refused. `words`: text that tells this refusal from others.

        A job that ends before the client first asks for its rows is reported from its status, and the client knows no
        HTTP code for some reasons there: it raises InternalServerError, with the reason of the refusal.
        """
        with pytest.raises((BadRequest, InternalServerError)) as refusal:
            self.query(sql, **options)
        errors = refusal.value.errors
        assert not errors or errors[0].get("reason") not in ("backendError", "internalError"), "failed, and not refused"
        message = str(errors[0].get("message", refusal.value)) if errors else str(refusal.value)
        self.notes.append(f"Refused: {message}")
        assert words.lower() in message.lower(), "refused for another reason"

    def now(self) -> datetime:
        """The current time of BigQuery."""
        ((now,),) = self.rows("SELECT CURRENT_TIMESTAMP()")
        return now

    def view(self, name: str) -> str:
        """The dataset's INFORMATION_SCHEMA view of this name, for a FROM clause."""
        return f"`{self.dataset}`.INFORMATION_SCHEMA.{name}"

    def partitions(self, table: str, column: str = "total_rows") -> dict[str, Any]:
        """A column of PARTITIONS for each partition of a table. `table`: its name in the dataset."""
        sql = f"SELECT partition_id, {column} FROM {self.view('PARTITIONS')} WHERE table_name = '{table}'"
        return dict(self.rows(sql))

    def rest(self, path: str = "", method: str = "GET", body: Any = None, **query: Any) -> Any:
        """The answer to a REST call, for what the client library lacks. `path`: what follows that of the dataset."""
        return self.project_rest(f"datasets/{self.name}{path}", method, body, **query)

    def project_rest(self, path: str, method: str = "GET", body: Any = None, **query: Any) -> Any:
        """The answer to a REST call. `path`: the resource's, below the project. `query`: parameters of the URL."""
        request: Any = self.client._connection.api_request
        return request(
            method=method, path=f"/projects/{self.servers.project}/{path}", data=body, query_params=query or None
        )

    def fields(self, table: str) -> dict[str, Any]:
        """The fields of the table's schema in the form of the REST API, by name. `table`: its name in the dataset."""
        return {field["name"]: field for field in self.rest(f"/tables/{table}")["schema"]["fields"]}


def _parameter(name: str, value: Any) -> Any:
    types = {str: "STRING", int: "INT64", float: "FLOAT64", datetime: "TIMESTAMP", date: "DATE"}
    return bigquery.ScalarQueryParameter(name, types[type(value)], value)


@contextmanager
def throwaway(servers: Servers) -> Iterator[Sandbox]:
    """Make a dataset and two buckets for the `with` block, and always delete them with their content after it."""
    sandbox = Sandbox(servers, f"dedup_clone_probe_{uuid.uuid4().hex[:10]}")
    dataset = bigquery.Dataset(sandbox.dataset)
    dataset.location, dataset.labels = servers.location, dict(LABELS)
    # The dataset has no default expiration, because a check refuses to publish tables that expire.
    try:
        servers.bigquery.create_dataset(dataset)
        for bucket in (sandbox.bucket, sandbox.landing_bucket):
            servers.storage.create_bucket(bucket, location=servers.location)
    except BaseException:
        with suppress(GoogleAPIError):  # the error to show is the first: why something could not be made
            _remove(sandbox)
        raise
    try:
        yield sandbox
    finally:
        _remove(sandbox)


def _remove(sandbox: Sandbox) -> None:
    try:
        sandbox.client.delete_dataset(sandbox.dataset, delete_contents=True, not_found_ok=True)
    finally:
        for bucket in (sandbox.bucket, sandbox.landing_bucket):
            with suppress(NotFound):
                for blob in list(bucket.list_blobs()):
                    blob.delete()
                bucket.delete()


def local_servers(addresses: tuple[str, str], http: Any = None) -> Servers:
    """Clients of the stand-in and of fake-gcs-server at these addresses (host:port)."""
    warehouse, objects = (
        {
            "project": "local-dev",
            "credentials": AnonymousCredentials(),
            "client_options": {"api_endpoint": f"http://{address}"},
            "_http": http,
        }
        for address in addresses
    )
    tag = "projects/local-dev/locations/us/taxonomies/1/policyTags/2"
    return Servers(
        bigquery.Client(**warehouse), storage.Client(**objects), "local-dev", "US", tag, Control(addresses[0])
    )


def live_servers(project: str, location: str, policy_tag: str | None) -> Servers:
    """Clients of Google Cloud with the user's own credentials."""
    for variable in ("BIGQUERY_EMULATOR_HOST", "BIGQUERY_STORAGE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
        os.environ.pop(variable, None)  # tests/conftest.py, or a shell that was used for the local stack, may set them
    DEFAULT_POLLING._initial, DEFAULT_POLLING._maximum = 1.0, 20.0  # tests/conftest.py polls local servers faster
    return Servers(
        bigquery.Client(project=project, location=location),
        storage.Client(project=project),
        project,
        location,
        policy_tag,
        None,
    )
