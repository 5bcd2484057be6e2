"""Defines the data model of tables: each change of a table adds an immutable version, which lists its segments.

Times are in microseconds since 1970, and their names end with `_us`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bigquery_standin.clock import DAY_US
from bigquery_standin.sql.field_types import TableField

WHOLE_TABLE = ""  # the partition id of an unpartitioned table's rows
NULL_PARTITION = "__NULL__"  # the partition id of rows without a date
TIME_TRAVEL_US = 7 * DAY_US
# The partition id that INFORMATION_SCHEMA shows for rows in the streaming buffer, and for days outside 1960 to 2159.
UNPARTITIONED = "__UNPARTITIONED__"


@dataclass(frozen=True, order=True)
class DatasetId:
    project: str
    dataset: str

    def __str__(self) -> str:
        return f"{self.project}:{self.dataset}"


@dataclass(frozen=True, order=True)
class TableId:
    project: str
    dataset: str
    table: str

    @property
    def dataset_id(self) -> DatasetId:
        return DatasetId(self.project, self.dataset)

    def to_api(self) -> dict[str, str]:
        return {"projectId": self.project, "datasetId": self.dataset, "tableId": self.table}

    def __str__(self) -> str:
        return f"{self.project}:{self.dataset}.{self.table}"


@dataclass(frozen=True)
class Segment:
    """One immutable Parquet file with rows. `column_bytes`: BigQuery's logical bytes of each top-level column."""

    file: str
    rows: int
    column_bytes: Mapping[str, int]

    @property
    def bytes(self) -> int:
        return sum(self.column_bytes.values())


@dataclass(frozen=True)
class Partition:
    """The segments of one partition. `modified_us`: when it was modified; in a clone, when the clone was made."""

    segments: tuple[Segment, ...]
    modified_us: int

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)


@dataclass(frozen=True)
class StreamedRows:
    """Rows or row changes of one streaming request, which are not in partitions yet."""

    segment: Segment
    received_us: int


@dataclass(frozen=True)
class ChangeLog:
    """The change data capture of a table.

    `pending`: the row changes that no apply job has applied yet, in the order of acknowledgement. `acknowledged_us`:
    the time of the last change. `applied`: the last applied change of every key, with which later changes are compared;
    None if there is none. `watermark_us`: changes acknowledged up to then are applied; None before the first apply job.
    `has_sequences`: whether the changes have sequence numbers.
    """

    pending: tuple[StreamedRows, ...]
    acknowledged_us: int
    has_sequences: bool
    applied: Segment | None = None
    watermark_us: int | None = None

    @property
    def stale_since_us(self) -> int:
        """Since when the table's rows may lack changes: the oldest pending change, else the watermark, else 0."""
        return max(self.watermark_us or 0, self.pending[0].received_us if self.pending else 0)

    def segments(self) -> Sequence[Segment]:
        return [*(changes.segment for changes in self.pending), *((self.applied,) if self.applied else ())]


@dataclass(frozen=True)
class CloneDefinition:
    """What a clone was made of: the table `base`, as it was at the time `clone_us`."""

    base: TableId
    clone_us: int


@dataclass(frozen=True)
class RowPolicy:
    """A row access policy: `grantees` may read the rows for which the SQL expression `predicate` is true."""

    name: str
    predicate: str
    grantees: tuple[str, ...]
    created_us: int

    @property
    def is_true_filter(self) -> bool:
        """Whether the predicate is TRUE, so that the grantees may read all rows."""
        return self.predicate.strip().strip("()").strip().upper() == "TRUE"


@dataclass(frozen=True)
class TableSettings:
    """A table's metadata: schema, layout, options and policies."""

    schema: tuple[TableField, ...]
    partition_column: str | None = None
    partition_unit: str = "DAY"  # HOUR, DAY or MONTH: the time span of a partition
    partition_expiration_ms: int | None = None
    require_partition_filter: bool = False
    clustering: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    friendly_name: str | None = None
    expires_us: int | None = None
    row_policies: tuple[RowPolicy, ...] = ()
    primary_key: tuple[str, ...] = ()  # never enforced
    max_staleness_s: int | None = None
    kms_key_name: str | None = None
    has_altered_types: bool = False  # segments may have narrower types than the schema
    view: str | None = None  # the query of a view, which has no rows of its own; None for a table

    @property
    def partition_type(self) -> str | None:
        """The type of the partitioning column; None for an unpartitioned table."""
        column = self.column(self.partition_column) if self.partition_column else None
        return column.type if column else None

    def column(self, name: str) -> TableField | None:
        return next((column for column in self.schema if column.name.lower() == name.lower()), None)

    def row_policy(self, name: str) -> RowPolicy | None:
        return next((policy for policy in self.row_policies if policy.name == name), None)

    def spelled(self, name: str) -> str:
        """The column's name as it is declared, because case does not count in SQL; `name` if there is no column."""
        column = self.column(name)
        return column.name if column else name

    def in_schema_spelling(self) -> TableSettings:
        """The settings with the columns of layout and primary key in the spelling of the schema."""
        return replace(
            self,
            partition_column=self.partition_column and self.spelled(self.partition_column),
            clustering=tuple(map(self.spelled, self.clustering)),
            primary_key=tuple(map(self.spelled, self.primary_key)),
        )


@dataclass(frozen=True)
class CommitInfo:
    """The job that committed a version.

    It is stored in the version, so that the table's content and the job's result are written atomically. `key`: that of
    the job in the job store.
    """

    key: str
    statistics: Mapping[str, object]


@dataclass(frozen=True)
class TableVersion:
    """The content and metadata of a table after one commit.

    `committed_us`: when this version was committed. `table_created_us`: when the table was created or last replaced.
    `modified_us`: when its metadata or rows, buffered ones included, last changed; older than `committed_us` in a
    version that drops the table, removes expired partitions, or only changes the change log.
    """

    number: int
    committed_us: int
    table_created_us: int
    settings: TableSettings
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    clone: CloneDefinition | None = None
    job: CommitInfo | None = None
    dropped: bool = False
    modified_us: int = 0
    had_row_policies: bool = False  # now or at any time before, also before the table was replaced
    buffer: tuple[StreamedRows, ...] = ()  # the streaming buffer, in the order of requests: copies do not have it
    change_log: ChangeLog | None = None  # None for a table without change data capture

    @property
    def gone_us(self) -> int | None:
        """When the table was dropped or expires; None if neither."""
        return self.committed_us if self.dropped else self.settings.expires_us

    @property
    def pending_changes(self) -> Sequence[Segment]:
        """The row changes that no apply job has applied yet. If there are any, BigQuery calls the table "active"."""
        return [changes.segment for changes in self.change_log.pending] if self.change_log else ()

    @property
    def rows(self) -> int:
        """The number of rows in partitions, without those in the streaming buffer."""
        return sum(partition.rows for partition in self.partitions.values())

    @property
    def bytes(self) -> int:
        """The logical bytes of the rows in partitions."""
        return sum(partition.bytes for partition in self.partitions.values())

    def segments(self, partition: str | None = None) -> Sequence[Segment]:
        """The segments of one partition, or of all partitions, without the streaming buffer.

        Their order is always the same, so rows have a fixed order, too.
        """
        if partition is not None:
            return self.partitions[partition].segments if partition in self.partitions else ()
        return [segment for key in sorted(self.partitions) for segment in self.partitions[key].segments]

    def queried_segments(self) -> Sequence[Segment]:
        """The segments that a query reads: those of all partitions, then those of the streaming buffer."""
        return [*self.segments(), *(rows.segment for rows in self.buffer)]

    def all_segments(self) -> Sequence[Segment]:
        """All segments of which the version consists: those that a query reads, then those of the change log."""
        return [*self.queried_segments(), *(self.change_log.segments() if self.change_log else ())]


@dataclass(frozen=True)
class Procedure:
    """A stored procedure for Apache Spark in Python. Its id has the form of a table's.

    `parameters`: names and SQL types, in order. `connection`: `project.location.id`. `properties`: those of Spark.
    """

    id: TableId
    parameters: tuple[tuple[str, str], ...]
    connection: str
    properties: Mapping[str, str]
    py_file_uris: tuple[str, ...]
    main_file_uri: str


@dataclass(frozen=True)
class Dataset:
    """A dataset's metadata. `hidden`: whether it holds anonymous query results and is not listed."""

    id: DatasetId
    location: str
    created_us: int
    modified_us: int
    labels: Mapping[str, str] = field(default_factory=dict)
    default_table_expiration_ms: int | None = None
    default_partition_expiration_ms: int | None = None
    hidden: bool = False
    procedures: Mapping[str, Procedure] = field(default_factory=dict)
