"""Finds the tables that a query references, and counts the bytes that it scans, and those that BigQuery bills for it.

Constant filters prune partitions. A query scans the referenced columns of what is not pruned. BigQuery bills whole
megabytes, and at least 10 MB for each referenced table and INFORMATION_SCHEMA view. The blocks of clustered tables are
not pruned here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from bigquery_standin.bigquery_errors import InvalidQuery, StandInError
from bigquery_standin.jobs.table_reader import TableReader, is_information_schema_view
from bigquery_standin.sql.type_parser import table_name_of
from bigquery_standin.storage.access import check_read
from bigquery_standin.storage.model import TableId, TableSettings, TableVersion
from bigquery_standin.storage.partitions import ID_LENGTHS, partition_start

MEGABYTE = 1 << 20
MINIMUM_BILLED_BYTES = 10 * MEGABYTE

NAME_COLUMN = "_name"  # identifies a partition in the rows that a Prune function gets
Prune = Callable[[pa.Table, Sequence[exp.Expr]], set[str]]


@dataclass(frozen=True)
class ScannedBytes:
    """What a query reads.

    `sizes`: the scanned bytes of each table. `view_count`: the number of INFORMATION_SCHEMA views.
    """

    sizes: Mapping[TableId, int]
    view_count: int

    @property
    def processed(self) -> int:
        return sum(self.sizes.values())

    @property
    def billed(self) -> int:
        """The billed bytes. The minimum of each table does not apply to a query that scans no bytes of any table."""
        sizes = self.sizes.values()
        tables = sum(max(MINIMUM_BILLED_BYTES, -(-size // MEGABYTE) * MEGABYTE) for size in sizes) if any(sizes) else 0
        return tables + self.view_count * MINIMUM_BILLED_BYTES

    def plus(self, table: TableId, size: int) -> ScannedBytes:
        return replace(self, sizes={**self.sizes, table: self.sizes.get(table, 0) + size})


NOTHING_SCANNED = ScannedBytes({}, 0)


def check_bytes_billed(scanned: ScannedBytes, limit: int | None) -> None:
    """Raises StandInError if the query would be billed for more bytes."""
    if limit is not None and scanned.billed > limit:
        raise StandInError(
            f"Query exceeded limit for bytes billed: {limit}. {scanned.billed} or higher required.",
            "bytesBilledLimitExceeded",
        )


def count_scanned_bytes(tree: exp.Expression, reader: TableReader, prune: Prune) -> ScannedBytes:
    """Count the bytes that a query scans.

    Raises AccessDenied or NotImplementedConstruct if a policy denies the read, InvalidQuery if the table requires a
    partition filter that the query lacks, or that cannot be used because the query merges row changes.
    `prune(rows, conditions)` returns the values of NAME_COLUMN in the rows that fulfil the conditions. Each row has
    the day of a partition.
    """
    scans = find_table_scans(tree, reader)
    sizes: dict[TableId, int] = {scan.table: 0 for scan in scans}
    versions = {scan.table: scan.version for scan in scans}  # a statement reads one version of each table
    columns_by_partition: dict[TableId, dict[str, set[str]]] = {}
    for scan in scans:
        check_read(reader.caller, reader.catalog, scan.table, scan.version, scan.columns)
        if reader.merges_changes(scan.table):
            _check_runtime_merge(scan)
            sizes[scan.table] = bytes_with_changes(scan.version)
            continue
        columns = {column.name for column in scan.version.settings.schema} if scan.columns is None else scan.columns
        for partition in _unpruned_partitions(scan, prune):
            columns_by_partition.setdefault(scan.table, {}).setdefault(partition, set()).update(columns)
    for table, partitions in columns_by_partition.items():
        sizes[table] = _bytes_of_columns(versions[table], partitions)
    return ScannedBytes(sizes, reader.view_count)


def bytes_with_changes(version: TableVersion) -> int:
    """The bytes that an apply job reads, or a query that merges row changes: all rows and the pending changes.

    Neither prunes partitions.
    """
    return version.bytes + sum(segment.bytes for segment in version.pending_changes)


def _check_runtime_merge(scan: TableScan) -> None:
    if scan.version.settings.require_partition_filter:
        raise InvalidQuery(
            f"Table {scan.table} has require_partition_filter, which queries that merge streamed row changes do not "
            "support: set a higher max_staleness, or wait until the changes are applied"
        )


def _bytes_of_columns(version: TableVersion, columns_by_partition: Mapping[str, set[str]]) -> int:
    return sum(
        segment.column_bytes.get(column, 0)
        for partition, columns in columns_by_partition.items()
        for segment in version.partitions[partition].segments
        for column in columns
    )


def _unpruned_partitions(scan: TableScan, prune: Prune) -> Iterable[str]:
    """The partitions to read. Raises InvalidQuery if the table requires a filter on them that the query lacks."""
    settings, partitions = scan.version.settings, scan.version.partitions
    if settings.partition_column is None:
        return partitions
    if not scan.filters:
        if settings.require_partition_filter:
            raise InvalidQuery(
                f"Cannot query over table '{scan.table.project}.{scan.table.dataset}.{scan.table.table}' without a "
                f"filter over column(s) '{settings.partition_column}' that can be used for partition elimination"
            )
        return partitions
    keys = [(key, day) for key in partitions for day in _days(key)]
    days = pa.table(
        {
            NAME_COLUMN: pa.array([key for key, _ in keys], pa.string()),
            settings.partition_column: pa.array([day for _, day in keys], _DAYS_AS[settings.partition_type or "DATE"]),
        }
    )
    return dict.fromkeys(prune(days, scan.filters))


# By the type of the partitioning column: the type of the days that filters on it are evaluated with.
_DAYS_AS = {"DATE": pa.date32(), "DATETIME": pa.timestamp("us"), "TIMESTAMP": pa.timestamp("us", tz="UTC")}


def _days(partition_id: str) -> list[datetime | None]:
    """The starts of all days of a partition, or of its hour; None for rows without a date."""
    first = partition_start(partition_id)
    if first is None or len(partition_id) != ID_LENGTHS["MONTH"]:
        return [first]
    days = (first + timedelta(days=number) for number in range(31))
    return [day for day in days if day.month == first.month]


@dataclass(frozen=True)
class TableScan:
    """One reference to a table in a query.

    `columns`: the columns that are read; None if whole rows are read or if that is not known: then all columns are
    billed. `filters`: those on the partition column.
    """

    table: TableId
    version: TableVersion
    alias: str
    columns: set[str] | None
    filters: list[exp.Expression]


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that the condition joins by AND; only the condition itself if it joins none."""
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def find_table_scans(tree: exp.Expression, reader: TableReader) -> list[TableScan]:
    """Finds the table references.

    In a copy of the tree it renames tables to t0, t1, … so that SQLGlot can look up any spelling of a name.
    """
    renamed = tree.copy()
    tables: dict[str, tuple[TableId, TableVersion]] = {}
    schema: dict[str, dict[str, str]] = {}
    renamed_sources: set[int] = set()
    for scope in traverse_scope(renamed):
        for alias, source in scope.sources.items():
            if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
                continue
            if id(source) in renamed_sources:  # an UNNEST has the tables beside it in its scope, too
                continue
            renamed_sources.add(id(source))
            name = table_name_of(source)
            new_name = f"t{len(schema)}"
            if is_information_schema_view(name):
                schema[new_name] = {column: "STRING" for column in reader.view(name).column_names}
            else:
                tables[new_name] = reader.version(name, _system_time(source))
                schema[new_name] = {column.name: column.type for column in tables[new_name][1].settings.schema}
            source.set("this", exp.to_identifier(new_name))
            source.set("db", None)
            source.set("catalog", None)
            source.set("version", None)
            if not source.alias:
                source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    if not tables:
        return []
    try:
        scopes = _qualified_scopes(renamed, tuple((name, tuple(types.items())) for name, types in schema.items()))
    except SqlglotError:
        # SQLGlot cannot analyse the query: count all columns, an upper bound.
        return [TableScan(table, version, name, None, []) for name, (table, version) in tables.items()]
    return [
        _scan(scope, alias, *tables[source.name])
        for scope in scopes
        for alias, source in scope.sources.items()
        if isinstance(source, exp.Table) and source.name in tables
    ]


@lru_cache(maxsize=256)
def _qualified_scopes(tree: exp.Expr, schema: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]) -> tuple[Scope, ...]:
    """The tree's scopes, in which each column has its table as a qualifier. `schema`: types by table and column.

    They are cached for repeated queries and must not be changed. Threads share them, so what SQLGlot would compute
    later is computed before they are cached.
    """
    columns: dict[str, object] = {name: dict(types) for name, types in schema}
    qualified = qualify(tree.copy(), schema=columns, dialect="bigquery", validate_qualify_columns=False)
    scopes = tuple(traverse_scope(qualified))
    for scope in scopes:
        _ = scope.columns  # SQLGlot computes them when they are first read
    return scopes


def _system_time(source: exp.Table) -> exp.Expression | None:
    version = source.args.get("version")
    return version.expression if isinstance(version, exp.Version) else None


def _scan(scope: object, alias: str, table: TableId, version: TableVersion) -> TableScan:
    where = scope.expression.args.get("where")  # type: ignore[attr-defined]
    filters = _partition_filters(where, alias, version.settings) if where else []
    return TableScan(table, version, alias, _columns_read(scope, alias, version), filters)


def _columns_read(scope: object, alias: str, version: TableVersion) -> set[str] | None:
    """The columns of the table that the scope reads. None if it reads whole rows, or that is not known."""
    row_values = scope.expression.find_all(exp.TableColumn)  # type: ignore[attr-defined]  # sqlglot's Scope is untyped
    if any(row.name.lower() == alias.lower() for row in row_values):  # the alias as a value is the whole row
        return None
    spelling = {column.name.lower(): column.name for column in version.settings.schema}
    columns: set[str] = set()
    for column in scope.columns:  # type: ignore[attr-defined]
        if column.table == alias:
            name = spelling.get(column.name.lower())
            if name is None:
                return None
            columns.add(name)
    return columns


def _partition_filters(where: exp.Expression, alias: str, settings: TableSettings) -> list[exp.Expression]:
    """Those of the conditions joined by AND that refer to nothing but the partition column.

    Of a TIMESTAMP or DATETIME, only the date counts here. BigQuery also prunes by the column itself and by some other
    functions. Source: "Query partitioned tables".
    """
    column = settings.partition_column
    if column is None:
        return []
    filters: list[exp.Expression] = []
    for condition in conjuncts(where.this):
        inner = condition.unnest()
        columns = list(inner.find_all(exp.Column))
        is_constant = not any(inner.find_all(exp.Subquery, exp.Select, exp.Window))
        if (
            isinstance(inner, exp.Expression)
            and is_constant
            and columns
            and all(c.table == alias and c.name.lower() == column.lower() for c in columns)
            and (settings.partition_type == "DATE" or all(_is_in_date(c) for c in columns))
        ):
            filters.append(inner)
    return filters


def _is_in_date(column: exp.Column) -> bool:
    """Whether the column is the argument of the function DATE."""
    function = column.parent
    return isinstance(function, exp.Anonymous) and function.name.upper() == "DATE"
