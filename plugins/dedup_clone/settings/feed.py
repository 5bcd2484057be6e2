"""Feed files: where snapshots land, the table, its checks, its freshness SLA and its audit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from dedup_clone.contract.billing import GIB, MIB, MIN_BYTES_BILLED, TIB
from dedup_clone.contract.engine import Engine, unsupported_reason
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.request import USUAL_FILE_BYTES, Plan
from dedup_clone.contract.table import Column, ColumnMode, TableContract, UpdateIdMode
from dedup_clone.settings.freshness_settings import FreshnessSettings
from dedup_clone.settings.identifiers import ColumnName, DeclaredColumnName, FeedName, ObjectPrefix
from dedup_clone.settings.spark_settings import Runner, SparkSize
from dedup_clone.settings.strict_yaml import StrictModel, read_model

KEY_TYPES = {"INT64", "STRING", "DATE", "TIMESTAMP", "NUMERIC", "BOOL", "BYTES"}
MAX_CLUSTER_COLUMNS = 4  # BigQuery's limit
SQL_CHECK_PREFIX = "sql_"

PolicyTag = Annotated[str, Field(pattern=r"^projects/[^/]+/locations/[^/]+/taxonomies/[^/]+/policyTags/[^/]+$")]
Share = Annotated[float, Field(ge=0, le=1)]
CheckName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class ColumnSettings(StrictModel):
    """One column."""

    name: DeclaredColumnName
    """Spelt as in the files. Names that BigQuery reserves are refused."""
    type: Literal["INT64", "STRING", "DATE", "TIMESTAMP", "DATETIME", "NUMERIC", "BOOL", "BYTES", "FLOAT64", "STRUCT"]
    """Type in BigQuery. docs/data-contract.md lists the Parquet types accepted for each."""
    mode: ColumnMode = ColumnMode.NULLABLE
    """REPEATED makes the column an array."""
    fields: tuple[ColumnSettings, ...] = ()
    """The nested columns of a STRUCT; other types have none."""

    @model_validator(mode="after")
    def fields_belong_to_structs(self) -> Self:
        if (self.type == "STRUCT") != bool(self.fields):
            raise ValueError(f"column [{self.name}] of type [{self.type}]: STRUCT needs fields, other types have none")
        return self

    def to_contract(self) -> Column:
        return Column(self.name, self.type, self.mode, tuple(f.to_contract() for f in self.fields))


class LandingSettings(StrictModel):
    """Snapshots are `<prefix>/snapshot_id=N/[date=D/]*.parquet` in the landing bucket; the marker is written last."""

    prefix: ObjectPrefix
    """Folder of the feed in the landing bucket, such as `stores/visits`."""
    format: Literal["parquet"] = "parquet"
    """Has no effect: all files are Parquet. Feed files of earlier versions may set it."""
    marker: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")] = "_SUCCESS"
    """Name of the empty object that the producer writes last; its arrival starts a publish."""
    date_folders: bool = True
    """Whether each date's files lie in a folder `<partition column>=YYYY-MM-DD`."""


class PolicySettings(StrictModel):
    """Row access policies by name, and policy tags by column, that staging must have so that its clones have them.

    This project never creates policies. When staging lacks one, nothing is published.
    """

    row_access: tuple[ColumnName, ...] = ()
    """Names of row access policies."""
    column_tags: dict[ColumnName, PolicyTag] = Field(default_factory=dict)
    """Resource name of the policy tag of each tagged column."""


class TableSettings(StrictModel):
    """The table's columns, and the role of some of them (see TableContract)."""

    columns: Annotated[tuple[ColumnSettings, ...], Field(min_length=3)]
    """All columns of the files and of the table, in the table's order."""
    partition_column: ColumnName
    """The DATE column by which the table has day partitions; one of the keys."""
    snapshot_id_column: ColumnName
    """The INT64 column that holds the snapshot id in every row of a delivery."""
    keys: Annotated[tuple[ColumnName, ...], Field(min_length=1)]
    """The columns that identify a row. The table has at most one row for each combination of their values."""
    cluster_by: Annotated[tuple[ColumnName, ...], Field(max_length=MAX_CLUSTER_COLUMNS)] = ()
    """Clustering columns, in order."""
    retention_days: Annotated[int, Field(ge=1, le=3650)]
    """BigQuery deletes a partition this many days after its date."""
    policies: PolicySettings = PolicySettings()
    """Policies that every published table must have."""

    @model_validator(mode="after")
    def columns_fit_together(self) -> Self:
        by_name = {c.name: c for c in self.columns}
        if len({name.lower() for name in by_name}) != len(self.columns):
            raise ValueError("two columns have the same name (BigQuery ignores case)")
        referenced = [
            *self.policies.column_tags,
            *self.keys,
            *self.cluster_by,
            self.partition_column,
            self.snapshot_id_column,
        ]
        unknown = [name for name in referenced if name not in by_name]
        if unknown:
            raise ValueError(f"{unknown} are not among the columns {list(by_name)}")
        if len(set(self.keys)) != len(self.keys):
            raise ValueError(f"keys name a column twice: {list(self.keys)}")
        if self.partition_column not in self.keys:
            raise ValueError(f"keys must contain the partition column [{self.partition_column}]")
        if by_name[self.partition_column].type != "DATE":
            raise ValueError(f"partition column [{self.partition_column}] must be DATE")
        if by_name[self.snapshot_id_column].type != "INT64" or self.snapshot_id_column in self.keys:
            raise ValueError(f"snapshot id column [{self.snapshot_id_column}] must be INT64 and no key")
        invalid = [k for k in self.keys if by_name[k].type not in KEY_TYPES or by_name[k].mode is ColumnMode.REPEATED]
        if invalid:
            raise ValueError(f"keys {invalid} have a type that cannot be a key; keys may be {sorted(KEY_TYPES)}")
        return self

    def to_contract(self) -> TableContract:
        return TableContract(
            columns=tuple(c.to_contract() for c in self.columns),
            partition_column=self.partition_column,
            snapshot_id_column=self.snapshot_id_column,
            keys=self.keys,
            cluster_by=self.cluster_by,
            retention_days=self.retention_days,
        )


class DuplicateKeys(StrEnum):
    """The level of the check for duplicate keys within a delivery."""

    WARN = "warn"
    FAIL = "fail"


class SqlCheck(StrictModel):
    """A query over the rows that would be published. It returns the rows that are wrong.

    The query is the file `dags/feeds/<feed>/<name>.sql`, one SELECT. In it, `{{ staging }}` stands for those rows.
    """

    name: CheckName
    """The check appears as `sql_<name>` in results, on the page and among the checks that an operator may accept."""
    max_rows: Annotated[int, Field(ge=0)] = 0
    """The check fails when the query returns more rows than this."""
    max_bytes_billed: Annotated[int, Field(ge=MIN_BYTES_BILLED)] = 64 * GIB
    """How much BigQuery may bill for one run of the query, in bytes. A dry run compares first, and is free."""

    @property
    def check(self) -> str:
        return f"{SQL_CHECK_PREFIX}{self.name}"


class CheckSettings(StrictModel):
    """Bounds of the checks before the swap.

    Shares are fractions of the rows on the dates that both the parent generation and the delivery have.
    """

    duplicate_keys: DuplicateKeys = DuplicateKeys.WARN
    """What a key that one delivery has more than once does: `warn` or `fail`. One row of the key is kept."""
    max_missing_dates: Annotated[int, Field(ge=0)] = 1
    """How many dates of the parent generation a delivery may lack."""
    max_new_share: Share = 0.2
    """Largest share of rows whose key the parent generation lacks."""
    max_survivor_share: Share = 0.2
    """Largest share of rows whose key the delivery lacks; these rows stay in the table."""
    max_changed_share: Share = 0.5
    """Largest share of rows with a known key and other values."""
    max_times_usual: Annotated[float, Field(ge=1)] | None = 10.0
    """Each share may be at most this many times its median over the last twenty publishes (null: not compared)."""
    tolerated_share: Share = 0.01
    """A share below this is not compared with its median."""
    sql: tuple[SqlCheck, ...] = ()
    """Queries of the feed's own. They run before the swap of every publish but a rollback."""

    @model_validator(mode="after")
    def names_are_unique(self) -> Self:
        names = [check.name for check in self.sql]
        if len(set(names)) != len(names):
            raise ValueError(f"checks.sql names one check twice: {names}")
        return self


class DedupSettings(StrictModel):
    """How the Spark job compares a delivery with the published files."""

    plan: Plan = Plan.AUTO
    """How each date is written: `auto` chooses by cost; docs/architecture.md describes the plans."""
    exact: bool = False
    """Compare the keys themselves (in mode `last_changed` also the values) instead of fingerprints and hashes.

    ADRs 0005 and 0006 give the odds of a collision."""
    compare_values: bool = True
    """Whether plan `adopt` reads the value columns too, to count changed rows. Without it their share is unknown."""
    file_megabytes: Annotated[int, Field(ge=16, le=4096)] = USUAL_FILE_BYTES // MIB
    """Target size of the files that the job writes. Files are larger where one load job could not name them all."""


class ContentAuditSettings(StrictModel):
    """Each day, some partitions of the target are compared with the published files."""

    enabled: bool = True
    """Without a schedule (`false`), the DAG can still be triggered by hand."""
    partitions_per_day: Annotated[int, Field(ge=1, le=100)] = 1
    """How many partitions are compared each day."""
    bytes_per_day: Annotated[int, Field(ge=MIN_BYTES_BILLED)] = 64 * GIB
    """How much BigQuery may bill for the comparison in a UTC day, in bytes."""


class Feed(StrictModel):
    """One feed file."""

    feed: FeedName
    """Name of the feed, of its file, and of its table in BigQuery; its DAGs are `<feed>_watch`, `<feed>_publish`, …"""
    description: str
    """What one row of the table is; shown on the page and in Airflow."""
    owner: str
    """Owner of the DAGs."""
    landing: LandingSettings
    """Where snapshots arrive."""
    table: TableSettings
    """The table and the roles of its columns."""
    update_id_mode: UpdateIdMode = UpdateIdMode.LAST_SEEN
    """Which snapshot id a row has: `last_seen` (the newest that contains it) or `last_changed` (that last changed it).

    `last_changed` needs snapshots in order."""
    engine: Engine = Engine.SPARK
    """What deduplicates: `spark` (reads files only), or SQL in BigQuery: `bigquery` (QUALIFY) or `merge` (MERGE)."""
    max_bytes_billed: Annotated[int, Field(ge=MIN_BYTES_BILLED)] = TIB
    """Bytes that BigQuery may bill for one query of an engine in SQL. A larger query is refused with its estimate."""
    runner: Runner | None = None
    """Where the feed's Spark job runs (null: the profile's runner)."""
    spark: SparkSize = SparkSize()
    """Size of the Spark job."""
    dedup: DedupSettings = DedupSettings()
    """How the Spark job compares."""
    checks: CheckSettings = CheckSettings()
    """What stops a publish before readers see it."""
    freshness: FreshnessSettings = FreshnessSettings()
    """The feed's freshness SLA, and when snapshots are expected."""
    content_audit: ContentAuditSettings = ContentAuditSettings()
    """The daily comparison of the table with the published files."""

    _queries: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def columns_are_no_tables(self) -> Self:
        tables = {self.target.lower(), self.staging.lower(), f"{self.target}_incoming".lower()}
        taken = [column.name for column in self.table.columns if column.name.lower() in tables]
        if taken:
            raise ValueError(
                f"columns {taken} have the name of the table: BigQuery would read them as a whole row in queries; "
                f"rename the column or the feed"
            )
        return self

    @model_validator(mode="after")
    def engine_fits_table(self) -> Self:
        problem = self.unsupported_reason(self.engine)
        if problem:
            raise ValueError(problem)
        return self

    def unsupported_reason(self, engine: Engine) -> str | None:
        """Why the engine cannot deduplicate this feed, and which engine can; None when it can."""
        policies = self.table.policies
        if engine is not Engine.SPARK and (policies.row_access or policies.column_tags):
            return (
                f"engine [{engine}] loads deliveries into a table without the policies that the feed declares, where "
                f"every reader of the dataset would see them: use engine [{Engine.SPARK}]"
            )
        return unsupported_reason(engine, self.table.to_contract(), self.update_id_mode)

    @property
    def target(self) -> str:
        return self.feed

    @property
    def staging(self) -> str:
        return f"{self.feed}_staging"

    def query_of(self, check: SqlCheck) -> str:
        """The text of the check's file."""
        return self._queries[check.name]

    def read_queries(self, folder: Path) -> None:
        """Read the files of `checks.sql` from the feed's folder. Raises ConfigurationError for a missing one."""
        for check in self.checks.sql:
            path = folder / self.feed / f"{check.name}.sql"
            if not path.is_file():
                raise ConfigurationError(f"Check [{check.name}] of feed [{self.feed}] has no file [{path}]: add it.")
            self._queries[check.name] = path.read_text(encoding="utf-8")


def read_feed(path: Path) -> Feed:
    """The feed in the file, whose name must be `<feed>.yaml`. Raises ConfigurationError."""
    feed = read_model(Feed, path)
    if feed.feed != path.stem:
        raise ConfigurationError(
            f"{path}:1: feed is [{feed.feed}], expected [{path.stem}] as the file is named: rename one of the two."
        )
    feed.read_queries(path.parent)
    return feed
