"""Proposes types, roles of columns, keys and retention of a table from a sample of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.settings.table_settings import KEY_TYPES, MAX_CLUSTER_COLUMNS
from deploy.new_feed.sample import Sample, read_columns, read_schema

MAX_ROWS = 2_000_000  # of the measurement of keys
MAX_RETENTION_DAYS = 3650  # of a feed file
_USUAL_ID_NAMES = ("update_id", "snapshot_id", "snapshot_no")
# Values of these types seldom identify a row, so they are the first that a key goes without.
_UNLIKELY_KEYS = {"NUMERIC", "TIMESTAMP", "BOOL", "BYTES"}


@dataclass(frozen=True)
class Proposal:
    """The proposed table, and what was measured.

    `rows`, `files`: read for the keys. `surplus_rows`: rows whose key another row has. `needed`: for each key column
    the number of different keys without it. `first`, `last`: the dates of the rows.
    """

    table: TableContract
    rows: int
    files: int
    surplus_rows: int
    needed: dict[str, int]
    first: date
    last: date


def propose(sample: Sample, today: date | None = None) -> Proposal:
    """Raises ConfigurationError if the sample lacks what a feed needs, with what the producer must add."""
    columns = tuple(bigquery_column(field) for field in read_schema(sample))
    scalars = [c.name for c in columns if c.type in KEY_TYPES and c.mode is ColumnMode.NULLABLE]
    rows = read_columns(sample, scalars, MAX_ROWS)
    partition = _partition_column(sample, columns, rows)
    snapshot_id = _snapshot_id_column(sample, columns, rows)
    keys, distinct = _keys(rows, columns, partition, snapshot_id)
    bounds = pc.min_max(rows[partition]).as_py()
    today = today or datetime.now(UTC).date()
    table = TableContract(
        columns=columns,
        partition_column=partition,
        snapshot_id_column=snapshot_id,
        keys=keys,
        cluster_by=tuple(key for key in keys if key != partition)[:MAX_CLUSTER_COLUMNS],
        retention_days=min(max((today - bounds["min"]).days + 1, 1), MAX_RETENTION_DAYS),
    )
    without = {key: _distinct(rows, [k for k in keys if k != key]) for key in keys if key != partition}
    surplus = rows.num_rows - distinct
    return Proposal(table, rows.num_rows, len(sample.files), surplus, without, bounds["min"], bounds["max"])


def bigquery_column(field: pa.Field) -> Column:
    """The column that the data contract gives for a Parquet column. Raises ConfigurationError for other types."""
    kind = field.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = bigquery_column(kind.value_field.with_name(field.name))
        if element.mode is ColumnMode.REPEATED:
            raise _unsuitable(field)
        return Column(field.name, element.type, ColumnMode.REPEATED, element.fields)
    if pa.types.is_struct(kind):
        return Column(field.name, "STRUCT", fields=tuple(bigquery_column(inner) for inner in kind))
    if pa.types.is_dictionary(kind):
        return bigquery_column(field.with_type(kind.value_type))
    return Column(field.name, _scalar_type(field))


def _scalar_type(field: pa.Field) -> str:
    kind, types = field.type, pa.types
    if types.is_integer(kind) and kind != pa.uint64():
        return "INT64"
    if types.is_float32(kind) or types.is_float64(kind):
        return "FLOAT64"
    if types.is_timestamp(kind) and kind.unit != "ns":
        return "TIMESTAMP" if kind.tz else "DATETIME"
    if types.is_decimal(kind) and kind.scale <= 9 and kind.precision - kind.scale <= 29:
        return "NUMERIC"
    found = {
        "BOOL": types.is_boolean(kind),
        "STRING": types.is_string(kind) or types.is_large_string(kind),
        "BYTES": types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind),
        "DATE": types.is_date32(kind),
    }
    for name, fits in found.items():
        if fits:
            return name
    raise _unsuitable(field)


def _unsuitable(field: pa.Field) -> ConfigurationError:
    return ConfigurationError(
        f"Sample column [{field.name}] has type [{field.type}], which no feed can have: docs/data-contract.md says "
        f"which types the producer may write."
    )


def _partition_column(sample: Sample, columns: tuple[Column, ...], rows: pa.Table) -> str:
    dates = [c.name for c in columns if c.type == "DATE" and c.mode is ColumnMode.NULLABLE and not _nulls(rows, c.name)]
    folder = sample.date_column
    if folder is not None and folder not in dates:
        raise ConfigurationError(
            f"The sample's files lack the column [{folder}] of their folders, as a DATE without NULL: the producer "
            f"must write it into the files too (docs/data-contract.md)."
        )
    if not dates:
        raise ConfigurationError(
            "The sample has no DATE column without NULL, by which the table would be partitioned: the producer must "
            "add one."
        )
    return folder or dates[0]


def _snapshot_id_column(sample: Sample, columns: tuple[Column, ...], rows: pa.Table) -> str:
    integers = [c.name for c in columns if c.type == "INT64" and c.mode is ColumnMode.NULLABLE]
    numbers = [name for name in integers if not _nulls(rows, name)]
    bounds = {name: pc.min_max(rows[name]).as_py() for name in numbers}
    constant = [name for name in numbers if bounds[name]["min"] == bounds[name]["max"] is not None]
    fitting = [name for name in constant if sample.snapshot_id in (None, bounds[name]["min"])]
    usual = [name for name in fitting if name in _USUAL_ID_NAMES]
    if not fitting:
        raise ConfigurationError(
            f"The sample has no INT64 column that equals the snapshot id [{sample.snapshot_id}] in every row: the "
            f"producer must add one, such as [update_id]."
        )
    return (usual or fitting[::-1])[0]


def _keys(rows: pa.Table, columns: tuple[Column, ...], partition: str, snapshot_id: str) -> tuple[tuple[str, ...], int]:
    """The fewest columns, the first ones of the table preferred, with as many keys as all columns together have."""
    candidates = [
        c
        for c in columns
        if c.type in KEY_TYPES
        and c.mode is ColumnMode.NULLABLE
        and c.name not in (partition, snapshot_id)
        and not _nulls(rows, c.name)
    ]
    kept = [partition, *(c.name for c in candidates)]
    distinct = _distinct(rows, kept)
    by_likelihood = sorted(reversed(candidates), key=lambda c: c.type not in _UNLIKELY_KEYS)
    for column in by_likelihood:
        fewer = [name for name in kept if name != column.name]
        if _distinct(rows, fewer) == distinct:
            kept = fewer
    return tuple(kept), distinct


def _distinct(rows: pa.Table, names: list[str]) -> int:
    if not names:
        return 1 if rows.num_rows else 0
    return int(rows.group_by(names, use_threads=True).aggregate([]).num_rows)


def _nulls(rows: pa.Table, name: str) -> int:
    return int(rows[name].null_count)
