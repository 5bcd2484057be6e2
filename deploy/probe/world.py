"""The throwaway dataset and bucket, and the few things that every attempt does there. Counts what is billed."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import DedupCloneError

if TYPE_CHECKING:
    from google.cloud import bigquery, storage

EXPIRATION_DAYS = 730
MILLISECONDS_PER_DAY = 86_400_000
BYTES_PER_STATEMENT = 200 * 1024**2  # no attempt needs more; BigQuery refuses what would
USD_PER_TIB = 6.25
BUDGET_USD = 0.5
LABELS = {"dedup_clone_probe": "throwaway"}
JOB_TIMEOUT_S = 600

Row = tuple[date | None, int, int]


class BudgetSpent(DedupCloneError):
    """The statements so far cost as much as the probe may."""


@dataclass(frozen=True)
class Clients:
    """`server`: what the report calls the other side."""

    bigquery: bigquery.Client
    storage: storage.Client
    project: str
    location: str
    server: str


class World:
    """Tables have the columns day DATE, id INT64, number INT64, partitions by day and clusters by id."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self.client = clients.bigquery
        self.name = name
        self.dataset = f"{clients.project}.{name}"
        self.bucket = clients.storage.bucket(name.replace("_", "-"))
        self.location = clients.location
        self.billed_bytes = 0
        self.today = datetime.now(UTC).date()

    @property
    def usd(self) -> float:
        return self.billed_bytes / 1024**4 * USD_PER_TIB

    def days_ago(self, days: int) -> date:
        return self.today - timedelta(days=days)

    def table(self, name: str) -> str:
        return f"{self.dataset}.{name}"

    def new_table(
        self, name: str, rows: Sequence[Row] = (), *, expiration_days: int | None = EXPIRATION_DAYS, **options: Any
    ) -> str:
        """Make a table of the project's usual layout, load `rows`, and give its full name."""
        from google.cloud import bigquery

        table = bigquery.Table(self.table(name), schema=schema())
        expiration_ms = None if expiration_days is None else expiration_days * MILLISECONDS_PER_DAY
        table.time_partitioning = bigquery.TimePartitioning(field="day", expiration_ms=expiration_ms)
        table.clustering_fields = options.pop("clustering", ["id"])
        table.description, table.labels = "made by the probe", dict(LABELS)
        self.client.create_table(table)
        if rows:
            self.load(self.table(name), rows)
        return self.table(name)

    def upload(self, rows: Iterable[Row], name: str = "") -> str:
        """The rows as a Parquet file; its gs:// address."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        kind = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("number", pa.int64())])
        columns = list(zip(*rows, strict=True))
        content = io.BytesIO()
        pq.write_table(pa.table({f.name: pa.array(c, f.type) for f, c in zip(kind, columns, strict=True)}), content)
        name = name or f"{uuid.uuid4().hex}.parquet"
        self.bucket.blob(name).upload_from_string(content.getvalue())
        return f"gs://{self.bucket.name}/{name}"

    def load(self, table: str, rows: Iterable[Row], disposition: str = "WRITE_TRUNCATE_DATA") -> Any:
        return self.load_uris(table, [self.upload(rows)], disposition)

    def load_uris(
        self, table: str, uris: Sequence[str], disposition: str, *, job_id: str | None = None, file_set: str = ""
    ) -> Any:
        """One load job, waited for. `file_set`: how `uris` are meant, when they are not the files themselves."""
        from google.cloud import bigquery

        options = {
            "sourceFormat": "PARQUET",
            "writeDisposition": disposition,
            "createDisposition": "CREATE_NEVER",
            **({"fileSetSpecType": file_set} if file_set else {}),
        }
        config: Any = bigquery.LoadJobConfig.from_api_repr({"load": options})  # it has no property for the file set
        job = self.client.load_table_from_uri(
            uris,
            table,
            job_config=config,
            job_id=job_id,
            location=self.location,
            project=self._clients.project,
        )
        return job.result(timeout=JOB_TIMEOUT_S)

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Run one statement or script and give the job. What it bills counts toward the budget."""
        from google.cloud import bigquery

        if self.usd > BUDGET_USD:
            raise BudgetSpent(f"Queries so far cost [{self.usd:.2f}] USD, the budget is [{BUDGET_USD}].")
        config = bigquery.QueryJobConfig(
            query_parameters=[_parameter(name, value) for name, value in (parameters or {}).items()],
            use_query_cache=False,
            maximum_bytes_billed=BYTES_PER_STATEMENT,
        )
        job = self.client.query(sql, job_config=config, location=self.location, project=self._clients.project)
        try:
            job.result(timeout=JOB_TIMEOUT_S)
        finally:
            self.billed_bytes += job.total_bytes_billed or 0
        return job

    def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.query(sql, parameters).result()]

    def numbers(self, table: str) -> list[int]:
        """The column `number`, sorted: each attempt gives its snapshots different numbers."""
        return [number for (number,) in self.rows(f"SELECT number FROM `{table}` ORDER BY number")]

    def now(self) -> datetime:
        """BigQuery's own time."""
        ((now,),) = self.rows("SELECT CURRENT_TIMESTAMP()")
        return now  # type: ignore[no-any-return]

    def view(self, name: str) -> str:
        return f"`{self.dataset}`.INFORMATION_SCHEMA.{name}"

    def rest(self, path: str, method: str = "GET", body: Mapping[str, Any] | None = None) -> Any:
        """A call below the project for which the client library has no method."""
        request: Any = self.client._connection.api_request
        return request(method=method, path=f"/projects/{self._clients.project}/{path}", data=body)

    def row_policies(self, table: str) -> list[str]:
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

    kinds = {str: "STRING", int: "INT64", float: "FLOAT64", datetime: "TIMESTAMP", date: "DATE"}
    return bigquery.ScalarQueryParameter(name, kinds[type(value)], value)


@contextmanager
def throwaway_world(clients: Clients) -> Iterator[World]:
    """A new dataset and bucket, deleted with all that is in them however the probe ends."""
    from google.api_core.exceptions import MethodNotImplemented
    from google.cloud import bigquery

    world = World(clients, f"dedup_clone_probe_{uuid.uuid4().hex[:10]}")
    dataset = bigquery.Dataset(world.dataset)
    dataset.location, dataset.labels = clients.location, dict(LABELS)
    dataset.default_table_expiration_ms = MILLISECONDS_PER_DAY  # should nobody come to clean up
    try:
        try:
            clients.bigquery.create_dataset(dataset)
        except MethodNotImplemented:
            dataset.default_table_expiration_ms = None
            clients.bigquery.create_dataset(dataset)
        clients.storage.create_bucket(world.bucket, location=clients.location)
        yield world
    finally:
        _remove(clients, world)


def _remove(clients: Clients, world: World) -> None:
    from google.api_core.exceptions import NotFound

    try:
        clients.bigquery.delete_dataset(world.dataset, delete_contents=True, not_found_ok=True)
    finally:
        try:
            for blob in list(world.bucket.list_blobs()):
                blob.delete()
            world.bucket.delete()
        except NotFound:
            pass
