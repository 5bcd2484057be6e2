"""Models of a feed's section `table`: columns and their roles, retention, required policies and options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from dedup_clone.contract.table import (
    MAX_PRIMARY_KEY_COLUMNS,
    MAX_RETENTION_DAYS,
    OWN_LABELS,
    Absent,
    Column,
    ColumnMode,
    PartitionBy,
    TableContract,
    column_paths,
)
from dedup_clone.settings.strict_yaml import ColumnName, DeclaredColumnName, LabelKey, LabelValue, StrictModel

LONGEST_MONTH = 31
# BigQuery's page "Quotas": one job, such as the load of staging, may modify 4,000 partitions. Rows may be of tomorrow.
MOST_DAYS_OF_HOURS = 4_000 // 24 - 2
MAX_LABELS = 61  # BigQuery's limit is 64, and each swap sets three labels of this project

_PART = r'[^/"\\\s]+'
KmsKey = Annotated[str, Field(pattern=rf"^projects/{_PART}/locations/{_PART}/keyRings/{_PART}/cryptoKeys/{_PART}$")]


# Statements quote the options, so no value may have a quote.
class OptionSettings(StrictModel):
    """Options that every swap sets on target; it removes others."""

    friendly_name: Annotated[str, Field(pattern=r'^[^"\\\r\n]{1,1024}$')] | None = Field(
        default=None, examples=["Orders by day"]
    )
    """The table's display name."""
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, max_length=MAX_LABELS, examples=[{"team": "sales"}]
    )
    """Labels. This project adds its own, whose keys begin with `dedup_clone_`."""
    require_partition_filter: bool = Field(default=False, examples=[True])
    """Whether queries without a filter on the partition column fail."""
    kms_key: KmsKey | None = Field(
        default=None, examples=["projects/my-project/locations/eu/keyRings/tables/cryptoKeys/orders"]
    )
    """Cloud KMS key of staging, target and the incoming tables."""

    def problems(self) -> Iterator[str]:
        taken = [key for key in self.labels if key.startswith(OWN_LABELS)]
        if taken:
            yield f"labels {taken} begin with [{OWN_LABELS}], as this project's own do: rename them"


KEY_TYPES = {"INT64", "STRING", "DATE", "DATETIME", "TIMESTAMP", "NUMERIC", "BOOL", "BYTES"}
DATE_TYPES = {"DATE", "DATETIME", "TIMESTAMP"}
MAX_CLUSTER_COLUMNS = 4  # BigQuery's limit
# BigQuery's page "Create clustered tables" names these types, and three that no feed can declare: BIGNUMERIC,
# GEOGRAPHY and RANGE.
CLUSTERING_TYPES = {"BOOL", "DATE", "DATETIME", "INT64", "NUMERIC", "STRING", "TIMESTAMP"}

PolicyTag = Annotated[str, Field(pattern=r"^projects/[^/]+/locations/[^/]+/taxonomies/[^/]+/policyTags/[^/]+$")]


class ColumnSettings(StrictModel):
    """One column."""

    name: DeclaredColumnName = Field(examples=["order_id"])
    """Spelt as in the files."""
    type: Literal[
        "INT64", "STRING", "DATE", "TIMESTAMP", "DATETIME", "NUMERIC", "BOOL", "BYTES", "FLOAT64", "STRUCT"
    ] = Field(examples=["INT64"])
    """Type in BigQuery (Parquet types: docs/deliver-snapshots.md)."""
    mode: ColumnMode = Field(default=ColumnMode.NULLABLE, examples=["REPEATED"])
    """REPEATED makes the column an array."""
    since: Annotated[int, Field(ge=0)] | None = Field(default=None, examples=[2001])
    """First snapshot id whose files must have it (null: all); see docs/feeds.md, add a column."""
    description: Annotated[str, Field(max_length=1024)] = Field(default="", examples=["Amount in EUR."])
    """Shown by BigQuery. Removing it here leaves it on the table."""
    fields: tuple[ColumnSettings, ...] = Field(default=(), examples=[[{"name": "city", "type": "STRING"}]])
    """The nested columns of a STRUCT."""

    def problems(self) -> Iterator[str]:
        if (self.type == "STRUCT") != bool(self.fields):
            yield f"column [{self.name}] of type [{self.type}]: STRUCT needs fields, other types have none"
        if self.since is not None and self.mode is ColumnMode.REQUIRED:
            yield f"column [{self.name}] has since, so older files lack it: it cannot be REQUIRED"

    def to_contract(self) -> Column:
        return Column(self.name, self.type, self.mode, tuple(f.to_contract() for f in self.fields))


class PolicySettings(StrictModel):
    """Policies that staging must have, else nothing is published. This project never creates them."""

    row_access: tuple[ColumnName, ...] = Field(default=(), examples=[["only_own_region"]])
    """Names of row access policies."""
    column_tags: dict[ColumnName, PolicyTag] = Field(
        default_factory=dict, examples=[{"email": "projects/my-project/locations/eu/taxonomies/1/policyTags/2"}]
    )
    """The policy tag of each tagged column."""


class TableSettings(StrictModel):
    """Columns and their roles, retention, policies and options."""

    columns: Annotated[tuple[ColumnSettings, ...], Field(min_length=3)] = Field(
        examples=[
            [
                {"name": "ordered_on", "type": "DATE"},
                {"name": "order_id", "type": "INT64"},
                {"name": "snapshot_id", "type": "INT64"},
            ]
        ]
    )
    """All columns, in the table's order."""
    partition_column: ColumnName = Field(examples=["ordered_on"])
    """A DATE, DATETIME or TIMESTAMP column, one of the keys. Files in date folders may lack a DATE."""
    partition_by: PartitionBy = Field(default=PartitionBy.DAY, examples=["hour"])
    """The time span of a partition. For limits of `hour` and `month` see docs/costs-and-limits.md."""
    snapshot_id_column: ColumnName = Field(examples=["snapshot_id"])
    """An INT64 column that equals the snapshot id in every row. Files may lack it."""
    keys: Annotated[tuple[ColumnName, ...], Field(min_length=1)] = Field(examples=[["ordered_on", "order_id"]])
    """The columns that identify a row."""
    cluster_by: Annotated[tuple[ColumnName, ...], Field(max_length=MAX_CLUSTER_COLUMNS)] = Field(
        default=(), examples=[["order_id"]]
    )
    """Clustering columns, in order."""
    retention_days: Annotated[int, Field(ge=1, le=MAX_RETENTION_DAYS)] = Field(examples=[730])
    """BigQuery deletes a partition this many days after its date."""
    absent_keys: Absent = Field(default=Absent.KEEP, examples=["delete"])
    """Whether a row stays if its date's newest snapshot lacks its key (docs/deliver-snapshots.md)."""
    absent_dates: Absent = Field(default=Absent.KEEP, examples=["delete"])
    """Whether a date stays that the newest snapshot lacks; `delete` needs `absent_keys: delete`."""
    keep_previous: Annotated[str, Field(pattern=r"^([1-9]|[1-8][0-9]|90)d$")] | None = Field(
        default=None, examples=["7d"]
    )
    """How long the table that a swap replaces stays as `FEED_previous`, 1d to 90d (null: not; docs/operate.md)."""
    policies: PolicySettings = PolicySettings()
    """Policies that the tables must have."""
    primary_key: bool = Field(default=False, examples=[True])
    """Whether the keys are a primary key for BigQuery's optimizer. Removing it here leaves it on the tables."""
    options: OptionSettings = OptionSettings()
    """Options of target."""

    def problems(self) -> Iterator[str]:
        by_name = {column.name: column for column in self.columns}
        if len({name.lower() for name in by_name}) != len(self.columns):
            yield "two columns have the same name (BigQuery ignores case)"
        yield from self._problems_of_names(by_name)
        yield from self._problems_of_roles(by_name)
        if self.partition_by is PartitionBy.MONTH and self.retention_days < LONGEST_MONTH:
            yield (
                f"retention_days is [{self.retention_days}], and a partition expires by its first day: with "
                f"partition_by [month] keep at least [{LONGEST_MONTH}] days"
            )
        if self.partition_by is PartitionBy.HOUR and self.retention_days > MOST_DAYS_OF_HOURS:
            yield (
                f"retention_days is [{self.retention_days}], and with partition_by [hour] a day has 24 partitions, of "
                f"which one job may write 4,000: keep at most [{MOST_DAYS_OF_HOURS}] days, or use partition_by [day]"
            )
        if self.absent_dates is Absent.DELETE and self.absent_keys is Absent.KEEP:
            yield "absent_dates is [delete], but absent_keys is [keep]: set absent_keys to [delete], too"
        if self.keep_previous and self.policies.row_access:
            yield (
                "keep_previous clones the table, and this project may not see all of its rows if it has row access "
                "policies: remove keep_previous"
            )

    def _problems_of_names(self, by_name: dict[str, ColumnSettings]) -> Iterator[str]:
        if "none" not in by_name and self.partition_column == "none":
            yield (
                "partition_column is [none], but rows are compared, checked and expired by their date, so every table "
                "has a partition for each day: let the producer add a DATE column"
            )
        if "none" not in by_name and self.snapshot_id_column == "none":
            yield (
                "snapshot_id_column is [none], but the ids of rows tell which of two snapshots is newer: declare a "
                "column such as {name: snapshot_id, type: INT64}, which the files may lack"
            )
        named = (*self.keys, *self.cluster_by, self.partition_column, self.snapshot_id_column)
        unknown = [name for name in (*self.policies.column_tags, *named) if name not in by_name]
        if unknown:
            yield f"{unknown} are not among the columns {list(by_name)}"
        for what, names in (("keys name", self.keys), ("cluster_by names", self.cluster_by)):
            if len(set(names)) != len(names):
                yield f"{what} a column twice: {list(names)}"

    def _problems_of_roles(self, by_name: dict[str, ColumnSettings]) -> Iterator[str]:
        keys, day, id_ = self.keys, by_name[self.partition_column], by_name[self.snapshot_id_column]
        if self.primary_key and len(keys) > MAX_PRIMARY_KEY_COLUMNS:
            yield f"primary_key: [{len(keys)}] keys, BigQuery allows [{MAX_PRIMARY_KEY_COLUMNS}]"
        if day.name not in keys:
            yield (
                f"keys must contain the partition column [{day.name}]: rows are compared within one date, "
                f"so a row whose date changes would be there twice"
            )
        if day.type not in DATE_TYPES:
            yield (
                f"partition column [{day.name}] is [{day.type}], expected one of {sorted(DATE_TYPES)}, because rows "
                f"are compared and checked by day: let the producer add a date as a column"
            )
        if day.type == "DATE" and self.partition_by is PartitionBy.HOUR:
            yield f"partition_by is [hour], but column [{day.name}] is a DATE, which has no hours: use [day]"
        if id_.type != "INT64" or id_.name in keys:
            yield f"snapshot id column [{id_.name}] must be INT64 and no key"
        late = [name for name in (*keys, id_.name) if by_name[name].since is not None]
        if late:
            yield f"{late} have [since], but every file must have keys and the snapshot id"
        for what, names, types, use in (
            ("keys", keys, KEY_TYPES, "be a key"),
            ("cluster_by:", self.cluster_by, CLUSTERING_TYPES, "cluster"),
        ):
            unfit = [n for n in names if by_name[n].type not in types or by_name[n].mode is ColumnMode.REPEATED]
            if unfit:
                yield f"{what} {unfit} are REPEATED or of a type that cannot {use}: {sorted(types)} can"

    @property
    def previous_days(self) -> int:
        """The days of `keep_previous`; 0 if the previous table is not kept."""
        return int(self.keep_previous.removesuffix("d")) if self.keep_previous else 0

    def descriptions(self) -> dict[str, str]:
        """The declared descriptions of all columns, also of nested ones, by column path."""
        return {path: column.description for path, column in column_paths(self.columns) if column.description}

    def since(self) -> dict[str, int]:
        """The first snapshot id whose files must have a column, by column path; only of columns with `since`."""
        return {path: column.since for path, column in column_paths(self.columns) if column.since is not None}

    def to_contract(self) -> TableContract:
        return TableContract(
            columns=tuple(c.to_contract() for c in self.columns),
            partition_column=self.partition_column,
            snapshot_id_column=self.snapshot_id_column,
            keys=self.keys,
            cluster_by=self.cluster_by,
            retention_days=self.retention_days,
            absent_keys=self.absent_keys,
            absent_dates=self.absent_dates,
            partition_by=self.partition_by,
        )
