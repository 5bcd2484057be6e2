"""Creates the throwaway dataset and GCS buckets in which assumptions are tested, and limits what queries cost."""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.billing import MIB, TIB, USD_PER_TIB
from dedup_clone.contract.errors import DedupCloneError

if TYPE_CHECKING:
    from google.cloud import bigquery, storage

EXPIRATION_DAYS = 730
MILLISECONDS_PER_DAY = 86_400_000
# The next two limit `ProbeDataset.query`. The jobs of tested publishes are only counted.
MAX_BYTES_PER_STATEMENT = 200 * MIB  # BigQuery refuses a statement that would bill more
BUDGET_USD = 0.5  # `query` starts nothing once the probe has spent more than this
LABELS = {"dedup_clone_probe": "throwaway"}
JOB_TIMEOUT_S = 600

Row = tuple[date | None, int, int]  # day, id, number


class BudgetSpent(DedupCloneError):
    """The queries so far have cost more than the probe may spend."""


@dataclass(frozen=True)
class Clients:
    """The clients, project and location that the probe uses.

    `server`: how the report names the tested server. `policy_tag`: the resource name of a policy tag that tests may put
    on columns; None without one. `sleep`: returns when the given number of seconds has passed on the server's clock; it
    may advance a stand-in's clock instead of waiting.
    """

    bigquery: bigquery.Client
    storage: storage.Client
    project: str
    location: str
    server: str
    policy_tag: str | None = None
    sleep: Callable[[float], None] = time.sleep


class ProbeDataset:
    """The throwaway dataset and two GCS buckets, and what tests do in them.

    `name`: the dataset's name; `dataset`: PROJECT.NAME. `bucket`: has the files that tests load, and is the
    state bucket of the publishes that are tested. `landing_bucket`: the landing bucket of these publishes. Tables have
    the columns day DATE, id INT64 and number INT64, are partitioned by day and, by default, clustered by id.
    """

    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self.client = clients.bigquery
        self.name = name
        self.dataset = f"{clients.project}.{name}"
        self.bucket = clients.storage.bucket(name.replace("_", "-"))
        self.landing_bucket = clients.storage.bucket(f"{self.bucket.name}-landing")
        self.storage = clients.storage
        self.location = clients.location
        self.policy_tag = clients.policy_tag
        self.sleep = clients.sleep
        self.billed_bytes = 0
        self.today = datetime.now(UTC).date()

    @property
    def usd(self) -> float:
        """The on-demand price in USD of all bytes billed so far, also by the jobs of tested publishes."""
        return self.billed_bytes / TIB * USD_PER_TIB

    @property
    def clean_up_command(self) -> str:
        """The command by which the user deletes what the probe has made, if the probe is killed before it does so."""
        buckets = " ".join(f"gs://{bucket.name}" for bucket in (self.bucket, self.landing_bucket))
        return f"bq rm -r -f -d {self._clients.project}:{self.name}; gcloud storage rm --recursive {buckets}"

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
        """Make a table with this project's layout, load `rows`, and return its full name (PROJECT.DATASET.TABLE).

        `expiration_days`: the days after which a partition expires; None for never.
        """
        from google.cloud import bigquery

        table = bigquery.Table(self.table(name), schema=schema())
        expiration_ms = None if expiration_days is None else expiration_days * MILLISECONDS_PER_DAY
        table.time_partitioning = bigquery.TimePartitioning(field="day", expiration_ms=expiration_ms)
        table.clustering_fields = list(clustering)
        table.description, table.labels = "made by the probe", dict(LABELS)
        self.client.create_table(table)
        if rows:
            self.load(self.table(name), rows)
        return self.table(name)

    def upload(self, rows: Iterable[Row], name: str = "") -> str:
        """Upload the rows as a Parquet file, and return its gs:// URI. `name`: the object's; by default a new one."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrow = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("number", pa.int64())])
        columns = list(zip(*rows, strict=True))
        content = io.BytesIO()
        pq.write_table(pa.table({f.name: pa.array(c, f.type) for f, c in zip(arrow, columns, strict=True)}), content)
        name = name or f"{uuid.uuid4().hex}.parquet"
        self.bucket.blob(name).upload_from_string(content.getvalue())
        return f"gs://{self.bucket.name}/{name}"

    def load(self, table: str, rows: Iterable[Row], disposition: str = "WRITE_TRUNCATE_DATA") -> Any:
        """Load the rows from a file of their own by one load job, and return the job."""
        return self.load_uris(table, [self.upload(rows)], disposition)

    def load_uris(
        self,
        table: str,
        uris: Sequence[str],
        disposition: str,
        *,
        job_id: str | None = None,
        file_set: str = "",
        adds_columns: bool = False,
    ) -> Any:
        """Run one load job, and return it.

        `file_set`: the job's fileSetSpecType, if `uris` name lists of files; empty if they name the files themselves.
        `adds_columns`: whether the job may add columns to the table.
        """
        from google.cloud import bigquery

        options = {
            "sourceFormat": "PARQUET",
            "writeDisposition": disposition,
            "createDisposition": "CREATE_NEVER",
            **({"fileSetSpecType": file_set} if file_set else {}),
            **({"schemaUpdateOptions": ["ALLOW_FIELD_ADDITION"]} if adds_columns else {}),
        }
        config: Any = bigquery.LoadJobConfig.from_api_repr({"load": options})  # no property sets fileSetSpecType
        job = self.client.load_table_from_uri(
            uris,
            table,
            job_config=config,
            job_id=job_id,
            location=self.location,
            project=self._clients.project,
        )
        return job.result(timeout=JOB_TIMEOUT_S)

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None, *, into: str | None = None) -> Any:
        """Run one statement or script, and return the job. Raises BudgetSpent when the budget is spent.

        `into`: a table whose rows the query's result replaces. Adds the bytes that the job bills to `billed_bytes`.
        """
        from google.cloud import bigquery

        if self.usd > BUDGET_USD:
            raise BudgetSpent(
                f"The queries so far have cost [{self.usd:.2f}] USD, the budget is [{BUDGET_USD}] USD: the rest was "
                f"not tried."
            )
        config = bigquery.QueryJobConfig(
            query_parameters=[_parameter(name, value) for name, value in (parameters or {}).items()],
            use_query_cache=False,
            maximum_bytes_billed=MAX_BYTES_PER_STATEMENT,
        )
        if into is not None:
            config.destination = into
            config.write_disposition = "WRITE_TRUNCATE_DATA"
        job = self.client.query(sql, job_config=config, location=self.location, project=self._clients.project)
        try:
            job.result(timeout=JOB_TIMEOUT_S)
        finally:
            self.billed_bytes += job.total_bytes_billed or 0
        return job

    def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The result of a query. Raises BudgetSpent when the budget is spent."""
        return [tuple(row.values()) for row in self.query(sql, parameters).result()]

    def numbers(self, table: str) -> list[int]:
        """The sorted values of the column `number`. Tests tell loads apart by it."""
        return [number for (number,) in self.rows(f"SELECT number FROM `{table}` ORDER BY number")]

    def now(self) -> datetime:
        """The current time of BigQuery."""
        ((now,),) = self.rows("SELECT CURRENT_TIMESTAMP()")
        return now  # type: ignore[no-any-return]

    def view(self, name: str) -> str:
        """The dataset's INFORMATION_SCHEMA view of this name, for a FROM clause."""
        return f"`{self.dataset}`.INFORMATION_SCHEMA.{name}"

    def rest(self, path: str, method: str = "GET", body: Mapping[str, Any] | None = None) -> Any:
        """The answer to a REST call, for what the client library lacks. `path`: the resource's, below the project."""
        request: Any = self.client._connection.api_request
        return request(method=method, path=f"/projects/{self._clients.project}/{path}", data=body)

    def row_policies(self, table: str) -> list[str]:
        """The ids of the row access policies of the table with this full name."""
        dataset, name = table.split(".")[1:]
        listed = self.rest(f"datasets/{dataset}/tables/{name}/rowAccessPolicies")
        return [policy["rowAccessPolicyReference"]["policyId"] for policy in listed.get("rowAccessPolicies", [])]


def schema() -> list[bigquery.SchemaField]:
    from google.cloud import bigquery

    return [
        bigquery.SchemaField("day", "DATE"),
        bigquery.SchemaField("id", "INTEGER"),
        bigquery.SchemaField("number", "INTEGER"),
    ]


def _parameter(name: str, value: Any) -> Any:
    from google.cloud import bigquery

    types = {str: "STRING", int: "INT64", float: "FLOAT64", datetime: "TIMESTAMP", date: "DATE"}
    return bigquery.ScalarQueryParameter(name, types[type(value)], value)


@contextmanager
def throwaway_dataset(clients: Clients) -> Iterator[ProbeDataset]:
    """Make a dataset and two buckets for the `with` block, and always delete them with their content after it."""
    from google.api_core.exceptions import GoogleAPIError
    from google.cloud import bigquery

    probe = ProbeDataset(clients, f"dedup_clone_probe_{uuid.uuid4().hex[:10]}")
    dataset = bigquery.Dataset(probe.dataset)
    dataset.location, dataset.labels = clients.location, dict(LABELS)
    # The dataset has no default expiration, because a check refuses to publish tables that expire.
    try:
        clients.bigquery.create_dataset(dataset)
        for bucket in (probe.bucket, probe.landing_bucket):
            clients.storage.create_bucket(bucket, location=clients.location)
    except BaseException:
        with suppress(GoogleAPIError):  # the error to show is the first: why something could not be made
            _remove(clients, probe)
        raise
    try:
        yield probe
    finally:
        _remove(clients, probe)


def _remove(clients: Clients, probe: ProbeDataset) -> None:
    from google.api_core.exceptions import NotFound

    try:
        clients.bigquery.delete_dataset(probe.dataset, delete_contents=True, not_found_ok=True)
    finally:
        for bucket in (probe.bucket, probe.landing_bucket):
            with suppress(NotFound):
                for blob in list(bucket.list_blobs()):
                    blob.delete()
                bucket.delete()
