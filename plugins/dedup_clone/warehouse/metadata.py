"""Metadata of tables, partitions, jobs and policies, converted from the client library's classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.warehouse.table_options import table_options

if TYPE_CHECKING:
    from google.cloud.bigquery import SchemaField, Table

MILLISECONDS_PER_DAY = 24 * 60 * 60 * 1000
# The REST API uses legacy SQL's names of types.
_STANDARD_TYPES = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"}


@dataclass(frozen=True)
class StreamingBuffer:
    """Rows that were streamed into a table and that a clone, a copy or an extract of it lacks.

    `rows` is BigQuery's estimate. `oldest_at`: when the oldest row was streamed; None if BigQuery does not say.
    """

    rows: int
    oldest_at: datetime | None


@dataclass(frozen=True)
class TableMetadata:
    """A table as tables.get describes it, free of charge. `size` in logical bytes.

    `expiration_days`: days after which a partition is deleted; None for never. `streaming_buffer`: None when it is
    empty. `clone_of`, `clone_time`: the table of which this one is a clone, and as of when; None for other tables.
    `kind`: TABLE, VIEW, EXTERNAL, …. `granularity`: DAY, HOUR, … of the time partitioning; None without one. `version`:
    a text that changes with every change of rows, schema or description. `expires_at`: when BigQuery deletes the whole
    table; None for never. `options`: labels, constraints, descriptions and so on (see table_options.py), without row
    access policies.
    """

    name: str
    columns: tuple[Column, ...]
    rows: int
    size: int
    partition_column: str | None
    expiration_days: float | None
    cluster_by: tuple[str, ...]
    labels: dict[str, str]
    streaming_buffer: StreamingBuffer | None
    clone_of: str | None
    clone_time: datetime | None
    created_at: datetime
    kind: str = "TABLE"
    granularity: str | None = None
    location: str = ""
    version: str = ""
    expires_at: datetime | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Policies:
    """Row access policies by name, and the policy tag of each tagged column, nested ones too, by column path."""

    row_access: tuple[str, ...]
    column_tags: dict[str, str]


@dataclass(frozen=True)
class PartitionMetadata:
    """One row of INFORMATION_SCHEMA.PARTITIONS.

    `partition_id`: YYYYMMDDHH, YYYYMMDD, YYYYMM, `__NULL__` or `__UNPARTITIONED__`.
    """

    partition_id: str
    rows: int
    last_modified_at: datetime


@dataclass(frozen=True)
class Observation:
    """A table and its partitions as of `observed_at`, by BigQuery's clock.

    `observed_at` is floored to a millisecond, the resolution in which BigQuery shows the time of a clone.
    """

    table: TableMetadata
    partitions: tuple[PartitionMetadata, ...]
    observed_at: datetime


@dataclass(frozen=True)
class Watermark:
    """How far BigQuery has applied the changes streamed into a table. Times are by BigQuery's clock.

    `applied_until`: all changes acknowledged before this time are applied; None until BigQuery has applied some.
    """

    observed_at: datetime
    applied_until: datetime | None


@dataclass(frozen=True)
class JobMetadata:
    """A BigQuery job. `kind`: query, load, …. `started_at`, `ended_at`: None until it starts or ends.

    `error`, `reason`: message and error code of a failed job; None for other jobs. `created_at`: when the job was
    accepted; from then until it starts it is PENDING. `child_jobs`: how many statements of a script have run as jobs of
    their own; 0 for other jobs. `changed_rows`: rows that a DML statement inserted, changed and deleted; 0 for other
    jobs.
    """

    job_id: str
    kind: str
    ended: bool
    error: str | None
    reason: str | None
    started_at: datetime | None
    ended_at: datetime | None
    bytes_billed: int
    created_at: datetime | None = None
    child_jobs: int = 0
    changed_rows: int = 0


def to_milliseconds(moment: datetime) -> datetime:
    """The time floored to a millisecond. BigQuery shows the time of a clone in this form."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def contract_column(field: SchemaField) -> Column:
    """Convert a column of a BigQuery schema, with its nested columns, to a column of the table contract."""
    return Column(
        name=field.name,
        type=_STANDARD_TYPES.get(field.field_type, field.field_type),
        mode=ColumnMode(field.mode or "NULLABLE"),
        fields=tuple(contract_column(inner) for inner in field.fields),
    )


def job_metadata(job: Any) -> JobMetadata:
    """The metadata of a job of the client library (QueryJob, LoadJob, …)."""
    return JobMetadata(
        job_id=job.job_id,
        kind=job.job_type,
        ended=job.state == "DONE",
        error=None if not job.error_result else job.error_result.get("message", "unknown error"),
        reason=None if not job.error_result else job.error_result.get("reason", "unknown"),
        started_at=job.started,
        ended_at=job.ended,
        bytes_billed=getattr(job, "total_bytes_billed", None) or 0,
        created_at=job.created,
        child_jobs=job.num_child_jobs,
        changed_rows=getattr(job, "num_dml_affected_rows", None) or 0,
    )


def schema_field(column: Column) -> dict[str, Any]:
    """Convert a column of the table contract, with its nested columns, to the REST API's form."""
    field: dict[str, Any] = {"name": column.name, "type": column.type, "mode": str(column.mode)}
    return field | {"fields": [schema_field(inner) for inner in column.fields]} if column.fields else field


def table_metadata(table: Table) -> TableMetadata:
    """The metadata of a table of the client library."""
    partitioning, resource = table.time_partitioning, table.to_api_repr()
    # `table.clone_definition` cannot read a time on a full second, which Google's JSON prints without a fraction.
    clone = resource.get("cloneDefinition") or {}
    expiration_ms = None if partitioning is None else partitioning.expiration_ms
    return TableMetadata(
        name=table.table_id,
        columns=tuple(contract_column(field) for field in table.schema),
        rows=table.num_rows or 0,
        size=table.num_bytes or 0,
        partition_column=None if partitioning is None else partitioning.field,
        expiration_days=None if expiration_ms is None else expiration_ms / MILLISECONDS_PER_DAY,
        cluster_by=tuple(table.clustering_fields or ()),
        labels=dict(table.labels),
        streaming_buffer=_streaming_buffer(table),
        clone_of=(clone.get("baseTableReference") or {}).get("tableId"),
        clone_time=datetime.fromisoformat(clone["cloneTime"]) if clone.get("cloneTime") else None,
        created_at=_created_at(table),
        kind=table.table_type or "",
        granularity=None if partitioning is None else partitioning.type_,
        location=table.location or "",
        version=f"{table.etag} {table.modified}",
        expires_at=table.expires,
        options=table_options(resource),
    )


def _streaming_buffer(table: Table) -> StreamingBuffer | None:
    buffer = table.streaming_buffer
    if buffer is None:
        return None
    return StreamingBuffer(buffer.estimated_rows or 0, buffer.oldest_entry_time)


def _created_at(table: Table) -> datetime:
    created: datetime | None = table.created
    if created is None:
        raise LookupError(f"BigQuery described table [{table.table_id}] without its creation time: retry the task.")
    return created
