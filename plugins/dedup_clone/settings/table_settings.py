"""Models of a feed's section `table`: columns and their roles, retention, required policies and options."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

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
from dedup_clone.settings.strict_yaml import ColumnName, DeclaredColumnName, StrictModel

LONGEST_MONTH = 31
MAX_LABELS = 61  # BigQuery's limit is 64, and each swap sets three labels of this project

LabelKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
LabelValue = Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")]

_PART = r'[^/"\\\s]+'
KmsKey = Annotated[str, Field(pattern=rf"^projects/{_PART}/locations/{_PART}/keyRings/{_PART}/cryptoKeys/{_PART}$")]


# Statements quote the options, so no value may have a quote.
class OptionSettings(StrictModel):
    """Options that every swap sets on target; it removes others."""

    friendly_name: Annotated[str, Field(pattern=r'^[^"\\\n]{1,1024}$')] | None = Field(
        default=None, examples=["Orders by day"]
    )
    """The table's display name."""
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, max_length=MAX_LABELS, examples=[{"team": "sales"}]
    )
    """Labels. This project adds three, whose keys begin with `dedup_clone_`."""
    require_partition_filter: bool = Field(default=False, examples=[True])
    """Whether queries without a filter on the partition column fail."""
    kms_key: KmsKey | None = Field(
        default=None, examples=["projects/my-project/locations/eu/keyRings/tables/cryptoKeys/orders"]
    )
    """Cloud KMS key of staging, target and the incoming table."""

    @model_validator(mode="after")
    def labels_are_free(self) -> Self:
        taken = [key for key in self.labels if key.startswith(OWN_LABELS)]
        if taken:
            raise ValueError(f"labels {taken} begin with [{OWN_LABELS}], as this project's own do: rename them")
        return self


NO_OPTIONS = OptionSettings()
KEY_TYPES = {"INT64", "STRING", "DATE", "TIMESTAMP", "NUMERIC", "BOOL", "BYTES"}
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

    @model_validator(mode="after")
    def fields_belong_to_structs(self) -> Self:
        if (self.type == "STRUCT") != bool(self.fields):
            raise ValueError(f"column [{self.name}] of type [{self.type}]: STRUCT needs fields, other types have none")
        return self

    @model_validator(mode="after")
    def since_needs_nullable(self) -> Self:
        if self.since is not None and self.mode is ColumnMode.REQUIRED:
            raise ValueError(f"column [{self.name}] has since, so older files lack it: it cannot be REQUIRED")
        return self

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
    """A DATE column, one of the keys. Files in date folders may lack it."""
    partition_by: PartitionBy = Field(default=PartitionBy.DAY, examples=["month"])
    """`month`: a partition has the rows of a month, and expires by its first day. Engine `spark` only; no takeover."""
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

    @model_validator(mode="after")
    def roles_have_columns(self) -> Self:
        if any(column.name == "none" for column in self.columns):
            return self
        if self.partition_column == "none":
            raise ValueError(
                "partition_column is [none], but rows are compared, checked and expired by their date, so every table "
                "has a partition for each day: let the producer add a DATE column"
            )
        if self.snapshot_id_column == "none":
            raise ValueError(
                "snapshot_id_column is [none], but the ids of rows tell which of two snapshots is newer: declare a "
                "column such as {name: snapshot_id, type: INT64}, which the files may lack"
            )
        return self

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
        if self.primary_key and len(self.keys) > MAX_PRIMARY_KEY_COLUMNS:
            raise ValueError(f"primary_key: [{len(self.keys)}] keys, BigQuery allows [{MAX_PRIMARY_KEY_COLUMNS}]")
        if self.partition_column not in self.keys:
            raise ValueError(
                f"keys must contain the partition column [{self.partition_column}]: rows are compared within one date, "
                f"so a row whose date changes would be there twice"
            )
        if by_name[self.partition_column].type != "DATE":
            raise ValueError(
                f"partition column [{self.partition_column}] must be DATE, because rows are compared and checked by "
                f"day: let the producer add the date of the time as a column"
            )
        if by_name[self.snapshot_id_column].type != "INT64" or self.snapshot_id_column in self.keys:
            raise ValueError(f"snapshot id column [{self.snapshot_id_column}] must be INT64 and no key")
        late = [n for n in (*self.keys, self.snapshot_id_column) if by_name[n].since is not None]
        if late:
            raise ValueError(f"{late} have [since], but every file must have keys and the snapshot id")
        invalid = [k for k in self.keys if by_name[k].type not in KEY_TYPES or by_name[k].mode is ColumnMode.REPEATED]
        if invalid:
            raise ValueError(f"keys {invalid} are REPEATED or of a type that cannot be a key: {sorted(KEY_TYPES)} can")
        return self

    @model_validator(mode="after")
    def months_do_not_expire_at_once(self) -> Self:
        if self.partition_by is PartitionBy.MONTH and self.retention_days < LONGEST_MONTH:
            raise ValueError(
                f"retention_days is [{self.retention_days}], and a partition expires by its first day: with "
                f"partition_by [month] keep at least [{LONGEST_MONTH}] days"
            )
        return self

    @model_validator(mode="after")
    def dates_have_their_keys(self) -> Self:
        if self.absent_dates is Absent.DELETE and self.absent_keys is Absent.KEEP:
            raise ValueError("absent_dates is [delete], but absent_keys is [keep]: set absent_keys to [delete], too")
        return self

    @model_validator(mode="after")
    def previous_table_can_be_cloned(self) -> Self:
        if self.keep_previous and self.policies.row_access:
            raise ValueError(
                "keep_previous clones the table, and this project may not see all of its rows if it has row access "
                "policies: remove keep_previous"
            )
        return self

    @property
    def previous_days(self) -> int:
        """The days of `keep_previous`; 0 if the previous table is not kept."""
        return int(self.keep_previous.removesuffix("d")) if self.keep_previous else 0

    @model_validator(mode="after")
    def columns_can_cluster(self) -> Self:
        clustering = [column for column in self.columns if column.name in self.cluster_by]
        unfit = [c.name for c in clustering if c.type not in CLUSTERING_TYPES or c.mode is ColumnMode.REPEATED]
        if unfit:
            raise ValueError(
                f"cluster_by: {unfit} are REPEATED or of a type that cannot cluster: {sorted(CLUSTERING_TYPES)} can"
            )
        if len(set(self.cluster_by)) != len(self.cluster_by):
            raise ValueError(f"cluster_by names a column twice: {list(self.cluster_by)}")
        return self

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
