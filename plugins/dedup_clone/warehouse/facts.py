"""What checks need to know of a table, freed from the client's classes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.table import Column


@dataclass(frozen=True)
class TableFacts:
    """A table as tables.get describes it, which costs nothing. `size` is logical bytes.

    `kind`: TABLE, VIEW, EXTERNAL …; `granularity`: DAY, HOUR …, None without a time partitioning. `version` changes
    with every change of rows, schema or description.
    """

    name: str
    columns: tuple[Column, ...]
    rows: int
    size: int
    partition_column: str | None
    expiration_days: float | None
    cluster_by: tuple[str, ...]
    labels: dict[str, str]
    has_streaming_buffer: bool
    clone_of: str | None
    clone_time: datetime | None
    created_at: datetime
    kind: str = "TABLE"
    granularity: str | None = None
    location: str = ""
    version: str = ""


@dataclass(frozen=True)
class Policies:
    """Row access policies by name, and the policy tag of each tagged column (top level)."""

    row_access: tuple[str, ...]
    column_tags: dict[str, str]


@dataclass(frozen=True)
class PartitionFacts:
    """One row of INFORMATION_SCHEMA.PARTITIONS; `partition_id` is YYYYMMDD or __NULL__."""

    partition_id: str
    rows: int
    last_modified_at: datetime


@dataclass(frozen=True)
class Observation:
    """A table and its partitions, read with BigQuery's own clock: everything before `observed_at` is in it."""

    table: TableFacts
    partitions: tuple[PartitionFacts, ...]
    observed_at: datetime
    bytes_billed: int


@dataclass(frozen=True)
class JobFacts:
    """An ended or running BigQuery job; times are None until it has come so far."""

    job_id: str
    kind: str
    ended: bool
    error: str | None
    started_at: datetime | None
    ended_at: datetime | None
    bytes_processed: int
    bytes_billed: int
    slot_ms: int
