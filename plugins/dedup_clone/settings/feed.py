"""Feed files: where snapshots land, the table, its checks, its freshness SLA and its audit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dedup_clone.contract.billing import GIB, MIB, MIN_BYTES_BILLED
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

PolicyTag = Annotated[str, Field(pattern=r"^projects/[^/]+/locations/[^/]+/taxonomies/[^/]+/policyTags/[^/]+$")]
Share = Annotated[float, Field(ge=0, le=1)]


class ColumnSettings(StrictModel):
    """One column. Only a STRUCT has nested `fields`."""

    name: DeclaredColumnName
    type: Literal["INT64", "STRING", "DATE", "TIMESTAMP", "DATETIME", "NUMERIC", "BOOL", "BYTES", "FLOAT64", "STRUCT"]
    mode: ColumnMode = ColumnMode.NULLABLE
    fields: tuple[ColumnSettings, ...] = ()

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
    # Unused; feed files of earlier versions may set it.
    format: Literal["parquet"] = "parquet"
    marker: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")] = "_SUCCESS"
    date_folders: bool = True


class PolicySettings(StrictModel):
    """Row access policies by name, and policy tags by column, that staging must have so that its clones have them.

    This project never creates policies. When staging lacks one, nothing is published.
    """

    row_access: tuple[ColumnName, ...] = ()
    column_tags: dict[ColumnName, PolicyTag] = Field(default_factory=dict)


class TableSettings(StrictModel):
    """The table's columns, and the role of some of them (see TableContract)."""

    columns: Annotated[tuple[ColumnSettings, ...], Field(min_length=3)]
    partition_column: ColumnName
    snapshot_id_column: ColumnName
    keys: Annotated[tuple[ColumnName, ...], Field(min_length=1)]
    cluster_by: Annotated[tuple[ColumnName, ...], Field(max_length=MAX_CLUSTER_COLUMNS)] = ()
    retention_days: Annotated[int, Field(ge=1, le=3650)]
    policies: PolicySettings = PolicySettings()

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


class CheckSettings(StrictModel):
    """Bounds of the checks before the swap. Shares are fractions of the rows on the dates that the publish touched.

    A share may also be at most `max_times_usual` times its median over the last twenty publishes (null: not compared).
    A share below `tolerated_share` passes that comparison.
    """

    duplicate_keys: DuplicateKeys = DuplicateKeys.WARN
    max_missing_dates: Annotated[int, Field(ge=0)] = 1
    max_new_share: Share = 0.2
    max_survivor_share: Share = 0.2
    max_changed_share: Share = 0.5
    max_times_usual: Annotated[float, Field(ge=1)] | None = 10.0
    tolerated_share: Share = 0.01


class DedupSettings(StrictModel):
    """`exact`: compare the keys themselves (in mode last_changed also the values) instead of fingerprints and hashes.

    ADRs 0005 and 0006 give the odds of a collision. `compare_values`: plan adopt also reads the value columns, to count
    changed rows; without it their share is unknown. `file_megabytes`: target size of files that the job writes. A small
    date has one smaller file. Files are larger if the table would otherwise need too many for one load job.
    """

    plan: Plan = Plan.AUTO
    exact: bool = False
    compare_values: bool = True
    file_megabytes: Annotated[int, Field(ge=16, le=4096)] = USUAL_FILE_BYTES // MIB


class ContentAuditSettings(StrictModel):
    """Each day, some partitions of target are compared with the published files.

    `bytes_per_day`: how much BigQuery may bill for it in a UTC day. `enabled: false` removes the schedule; the DAG can
    still be triggered by hand.
    """

    enabled: bool = True
    partitions_per_day: Annotated[int, Field(ge=1, le=100)] = 1
    bytes_per_day: Annotated[int, Field(ge=MIN_BYTES_BILLED)] = 64 * GIB


class Feed(StrictModel):
    """One feed file. `runner`: where its Spark job runs; None: the profile's runner."""

    feed: FeedName
    description: str
    owner: str
    landing: LandingSettings
    table: TableSettings
    update_id_mode: UpdateIdMode = UpdateIdMode.LAST_SEEN
    engine: Engine = Engine.SPARK
    runner: Runner | None = None
    spark: SparkSize = SparkSize()
    dedup: DedupSettings = DedupSettings()
    checks: CheckSettings = CheckSettings()
    freshness: FreshnessSettings = FreshnessSettings()
    content_audit: ContentAuditSettings = ContentAuditSettings()

    @model_validator(mode="after")
    def engine_fits_table(self) -> Self:
        problem = unsupported_reason(self.engine, self.table.to_contract(), self.update_id_mode)
        if problem:
            raise ValueError(problem)
        return self

    @property
    def target(self) -> str:
        return self.feed

    @property
    def staging(self) -> str:
        return f"{self.feed}_staging"


def read_feed(path: Path) -> Feed:
    """The feed in the file, whose name must be `<feed>.yaml`. Raises ConfigurationError."""
    feed = read_model(Feed, path)
    if feed.feed != path.stem:
        raise ConfigurationError(
            f"{path}:1: feed is [{feed.feed}], expected [{path.stem}] as the file is named: rename one of the two."
        )
    return feed
