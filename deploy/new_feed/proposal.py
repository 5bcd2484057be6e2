"""Proposes types, roles of columns, keys and retention of a table from a sample of its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import combinations, product

import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import MAX_RETENTION_DAYS, Column, ColumnMode, TableContract
from dedup_clone.settings.table_settings import CLUSTERING_TYPES, KEY_TYPES, MAX_CLUSTER_COLUMNS, ColumnSettings
from deploy.new_feed.sample import Sample, read_columns, read_schema

MAX_ROWS = 2_000_000  # keys are measured on the first files that together have at least this many rows
_USUAL_ID_NAMES = ("update_id", "snapshot_id", "snapshot_no")
# Keys of the date and up to _COLUMNS_TRIED other columns are tried on the first _ROWS_TRIED rows. Those that tell as
# many of these rows apart as all possible key columns do are tried on all rows.
_COLUMNS_TRIED, _ROWS_TRIED = 3, 100_000
_ALTERNATIVES_NAMED = 4  # in the feed file
_NAME_OF_AN_ID = re.compile(r"(^|_)(id|key|code|no|nr|num|number|sku)$", re.IGNORECASE)
_UNLIKELY_KEYS = {"NUMERIC", "DATETIME", "TIMESTAMP", "BOOL", "BYTES"}


@dataclass(frozen=True)
class Proposal:
    """The proposed table, and what was measured.

    `rows`: the number of rows that were read to measure keys. `surplus_rows`: those beyond the first of each key.
    `distinct_without`: for each key column, except the partition column, the number of different keys without it.
    `unique_without_date`: whether the other keys tell as many rows apart without the date, of which there are several.
    `alternatives`: other keys of as few columns that tell as many rows apart. `unfit_keys`: columns that would tell
    more rows apart but cannot be keys, each with the reason. `first`, `last`: the first and last date of the rows.
    `expired_rows`: the number of rows that are older than the longest retention that a feed may have.
    """

    table: TableContract
    rows: int
    surplus_rows: int
    distinct_without: dict[str, int]
    unique_without_date: bool
    alternatives: tuple[tuple[str, ...], ...]
    unfit_keys: dict[str, str]
    first: date
    last: date
    expired_rows: int

    @property
    def ids(self) -> tuple[str, ...]:
        """The keys without the date."""
        return tuple(key for key in self.table.keys if key != self.table.partition_column)


def propose(sample: Sample) -> Proposal:
    """Propose a table. Raises ConfigurationError, which says what the producer must add or change for a feed."""
    columns = _columns(read_schema(sample))
    if unfit := _unfit_names(columns):
        raise ConfigurationError(
            f"Sample columns [{', '.join(unfit)}] have names that no feed can have: the producer must rename "
            f"them, with letters, digits and underscores, and not as BigQuery names its own."
        )
    scalars = [c.name for c in columns if c.type in KEY_TYPES and c.mode is ColumnMode.NULLABLE]
    rows = read_columns(sample, scalars, MAX_ROWS)
    partition = _partition_column(sample, columns, rows)
    snapshot_id = _snapshot_id_column(sample, columns, rows)
    (keys, *alternatives), distinct = _keys(rows, columns, partition, snapshot_id)
    clusterable = {column.name for column in columns if column.type in CLUSTERING_TYPES}
    bounds = pc.min_max(rows[partition]).as_py()
    today = datetime.now(UTC).date()
    table = TableContract(
        columns=columns,
        partition_column=partition,
        snapshot_id_column=snapshot_id,
        keys=keys,
        cluster_by=tuple(key for key in keys if key != partition and key in clusterable)[:MAX_CLUSTER_COLUMNS],
        retention_days=min(max((today - bounds["min"]).days + 1, 1), MAX_RETENTION_DAYS),
    )
    without = {key: _distinct(rows, [k for k in keys if k != key]) for key in keys}
    unique_without_date = without.pop(partition) == distinct and bounds["min"] < bounds["max"]
    oldest = today - timedelta(days=MAX_RETENTION_DAYS - 1)
    return Proposal(
        table=table,
        rows=rows.num_rows,
        surplus_rows=rows.num_rows - distinct,
        distinct_without=without,
        unique_without_date=unique_without_date,
        alternatives=tuple(alternatives[:_ALTERNATIVES_NAMED]),
        unfit_keys=_unfit_keys(rows, columns, table) if distinct < rows.num_rows else {},
        first=bounds["min"],
        last=bounds["max"],
        expired_rows=int(pc.sum(pc.less(rows[partition], oldest)).as_py()),
    )


def _unfit_names(columns: tuple[Column, ...]) -> list[str]:
    """Names in the sample, also of nested columns, that no column of a feed file may have."""
    found = []
    for column in columns:
        try:
            ColumnSettings(name=column.name, type="INT64")
        except ValueError:
            found.append(column.name)
        found += _unfit_names(column.fields)
    return found


def _columns(schema: pa.Schema) -> tuple[Column, ...]:
    """The table's columns by the data contract. Raises ConfigurationError, which names all unsuitable columns."""
    columns, problems = [], []
    for field in schema:
        try:
            columns.append(bigquery_column(field))
        except ConfigurationError as error:
            problems.append(str(error))
    if problems:
        listed = "\n  ".join(problems)
        raise ConfigurationError(f"The sample has columns that no feed can have:\n  {listed}")
    return tuple(columns)


def bigquery_column(field: pa.Field) -> Column:
    """The table's column for a Parquet column, by the data contract. Raises ConfigurationError for unsuitable types."""
    kind = field.type
    if pa.types.is_list(kind):
        element = bigquery_column(kind.value_field.with_name(field.name))
        if element.mode is ColumnMode.REPEATED:
            raise _unsuitable(field)
        return Column(field.name, element.type, ColumnMode.REPEATED, element.fields)
    if pa.types.is_struct(kind):
        return Column(field.name, "STRUCT", fields=tuple(bigquery_column(inner) for inner in kind))
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
        "STRING": types.is_string(kind),
        "BYTES": types.is_binary(kind) or types.is_fixed_size_binary(kind),
        "DATE": types.is_date32(kind),
    }
    for name, fits in found.items():
        if fits:
            return name
    raise _unsuitable(field)


def _unsuitable(field: pa.Field) -> ConfigurationError:
    if pa.types.is_timestamp(field.type):  # of nanoseconds, as pandas writes them
        remedy = 'the producer must write microseconds (pandas: to_parquet(…, coerce_timestamps="us")).'
    elif pa.types.is_null(field.type):  # pandas writes a column of None so
        remedy = "no row of the file has a value in it. Let the producer write every file with the same schema."
    else:
        remedy = "docs/deliver-snapshots.md says which types the producer may write."
    return ConfigurationError(f"Sample column [{field.name}] has type [{field.type}], which no feed can have: {remedy}")


def _partition_column(sample: Sample, columns: tuple[Column, ...], rows: pa.Table) -> str:
    dates = [
        c.name for c in columns if c.type == "DATE" and c.mode is ColumnMode.NULLABLE and not _null_count(rows, c.name)
    ]
    folder = sample.date_column
    if folder is not None and folder not in dates:
        raise ConfigurationError(
            f"The sample's files lack the column [{folder}] of their folders, as a DATE without NULL: the producer "
            f"must write it into the files too (docs/deliver-snapshots.md)."
        )
    if not dates:
        raise ConfigurationError(
            "The sample has no DATE column without NULL, by which the table would be partitioned: the producer must "
            "add one."
        )
    return folder or dates[0]


def _snapshot_id_column(sample: Sample, columns: tuple[Column, ...], rows: pa.Table) -> str:
    integers = [c.name for c in columns if c.type == "INT64" and c.mode is ColumnMode.NULLABLE]
    numbers = [name for name in integers if not _null_count(rows, name)]
    bounds = {name: pc.min_max(rows[name]).as_py() for name in numbers}
    constant = [name for name in numbers if bounds[name]["min"] == bounds[name]["max"] is not None]
    fitting = [name for name in constant if sample.snapshot_id in (None, bounds[name]["min"])]
    usual = [name for name in fitting if name in _USUAL_ID_NAMES]
    if not fitting:
        needed = "has the same value in every row, which would be the snapshot id"
        if sample.snapshot_id is not None:
            needed = f"equals the snapshot id [{sample.snapshot_id}] in every row"
        raise ConfigurationError(
            f"The sample has no INT64 column that {needed}: the producer must add one, such as [update_id]."
        )
    return (usual or fitting[::-1])[0]  # without a usual name the last column, because ids that are keys come first


def _keys(
    rows: pa.Table, columns: tuple[Column, ...], partition: str, snapshot_id: str
) -> tuple[list[tuple[str, ...]], int]:
    """Keys with as many different values as all possible key columns together have, and this number.

    If the date and at most _COLUMNS_TRIED other columns suffice for a key, returns all such keys of the fewest columns,
    the likeliest first; columns of unlikely types are tried only if no others suffice. Otherwise returns one key: all
    possible columns without those that are not needed.
    """
    candidates = [
        c
        for c in columns
        if c.type in KEY_TYPES
        and c.mode is ColumnMode.NULLABLE
        and c.name not in (partition, snapshot_id)
        and not _null_count(rows, c.name)
    ]
    all_columns = (partition, *(c.name for c in candidates))
    distinct, first_rows = _distinct(rows, all_columns), rows.slice(0, _ROWS_TRIED)
    distinct_in_first_rows = _distinct(first_rows, all_columns)
    likely = [c for c in candidates if c.type not in _UNLIKELY_KEYS]
    for pool, size in product((likely, candidates), range(_COLUMNS_TRIED + 1)):
        choices = [(partition, *(c.name for c in chosen)) for chosen in combinations(pool, size)]
        choices = [names for names in choices if _distinct(first_rows, names) == distinct_in_first_rows]
        choices = [names for names in choices if _distinct(rows, names) == distinct]
        if choices:
            unlikely = {c.name: _unlikelihood(c) for c in candidates} | {partition: 0}
            return sorted(choices, key=lambda names: sum(unlikely[name] for name in names)), distinct
    kept = all_columns
    for column in sorted(reversed(candidates), key=_unlikelihood, reverse=True):
        fewer = tuple(name for name in kept if name != column.name)
        kept = fewer if _distinct(rows, fewer) == distinct else kept
    return [kept], distinct


def _unfit_keys(rows: pa.Table, columns: tuple[Column, ...], table: TableContract) -> dict[str, str]:
    """Columns with which more rows would have a key of their own, and why they cannot be keys."""
    found, distinct = {}, _distinct(rows, table.keys)
    for column in columns:
        if column.name not in rows.column_names or column.name in (*table.keys, table.snapshot_id_column):
            continue
        if _distinct(rows, (*table.keys, column.name)) > distinct:
            found[column.name] = "has NULL in some rows"
    return found


def _unlikelihood(column: Column) -> int:
    """How unlikely the column is part of a key.

    3 for the types in _UNLIKELY_KEYS; for other types 0 if the name is like that of an id, else 1 for text and 2 for
    the rest.
    """
    if column.type in _UNLIKELY_KEYS:
        return 3
    if _NAME_OF_AN_ID.search(column.name):
        return 0
    return 1 if column.type == "STRING" else 2


def _distinct(rows: pa.Table, names: Sequence[str]) -> int:
    """The number of different rows in the named columns."""
    if not names:
        return 1 if rows.num_rows else 0
    return int(rows.group_by(list(names), use_threads=True).aggregate([]).num_rows)


def _null_count(rows: pa.Table, name: str) -> int:
    return int(rows[name].null_count)
