"""Decides which changes of a table's columns a publish makes, which need a rebuild, and which are refused.

BigQuery's rules are on its page "Modifying table schemas" (managing-table-schemas). Its page "Specify nested and
repeated columns" (nested-repeated) adds that nested columns, too, may be relaxed from REQUIRED to NULLABLE.

`before` are usually the published columns, `after` those that the feed file declares; some callers pass the columns of
staging as one of the two. `prefix` is the path of the STRUCT that the columns are in, with a dot at the end; empty for
top-level columns.

A rebuild writes the live rows of table `before` anew, as the changed feed file declares the table (`after`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dedup_clone.contract.table import (
    Column,
    ColumnMode,
    PartitionBy,
    TableContract,
    column_paths,
    float64_columns,
)


def added_columns(before: Sequence[Column], after: Sequence[Column]) -> list[str]:
    """Paths of the columns of `after` that `before` lacks, nested columns included."""
    former = {"", *(path for path, _ in column_paths(before))}
    return [path for path, _ in column_paths(after) if path not in former and path.rpartition(".")[0] in former]


# Pairs of a type and a wider type that holds every value of the first.
_WIDENINGS = {("INT64", "NUMERIC")}
_RELAXED = (ColumnMode.REQUIRED, ColumnMode.NULLABLE)


def widened_columns(before: Sequence[Column], after: Sequence[Column]) -> list[str]:
    """Paths of the columns of `after` that have a wider type than in `before`, nested columns included.

    Columns inside an ARRAY are left out, because BigQuery changes no type there.
    """
    common = _common_columns(before, after)
    return [path for path, former, new, in_array in common if not in_array and (former.type, new.type) in _WIDENINGS]


def relaxed_columns(before: Sequence[Column], after: Sequence[Column]) -> list[str]:
    """Paths of the columns of `after` that are no longer REQUIRED, nested columns included."""
    return [path for path, former, new, _ in _common_columns(before, after) if (former.mode, new.mode) == _RELAXED]


def _common_columns(
    before: Sequence[Column], after: Sequence[Column], prefix: str = "", *, in_array: bool = False
) -> Iterator[tuple[str, Column, Column, bool]]:
    """The path of each column of both, how it was, how it is, and whether it is an ARRAY or inside one."""
    former_columns = {column.name: column for column in before}
    for column in after:
        former = former_columns.get(column.name)
        if former is not None:
            path, in_this = f"{prefix}{column.name}", in_array or ColumnMode.REPEATED in (former.mode, column.mode)
            yield path, former, column, in_this
            yield from _common_columns(former.fields, column.fields, f"{path}.", in_array=in_this)


def with_wider_types(column: Column, declared: Column) -> Column:
    """`column` with the wider types of `declared`, also in nested columns. Fields that only `declared` has stay out."""
    if not widened_columns([column], [declared]):
        return column
    declared_fields = {field.name: field for field in declared.fields}
    fields = tuple(with_wider_types(field, declared_fields.get(field.name, field)) for field in column.fields)
    return replace(column, type=declared.type, fields=fields)


def refused_table_changes(before: TableContract, after: TableContract) -> list[str]:
    """The changes from table `before` to table `after` that no publish can make, one text for each; empty if none.

    A publish can change the retention. Clustering is not compared here, because files do not depend on it; the check
    `layout` compares the declared clustering with the clustering of the tables.
    """
    refused = refused_column_changes(before.columns, after.columns)
    fixed_types = {*before.keys, before.snapshot_id_column, *before.cluster_by}
    refused += [
        f"column [{name}] has another type, and columns of keys, snapshot id and clustering must keep theirs"
        for name in widened_columns(before.columns, after.columns)
        if name in fixed_types
    ]
    for what in ("keys", "partition_column", "partition_by", "snapshot_id_column"):
        found, expected = getattr(after, what), getattr(before, what)
        if found != expected:
            refused.append(f"{what} is [{_listed(found)}], it was [{_listed(expected)}]")
    return refused


def _listed(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names)


def refused_column_changes(before: Sequence[Column], after: Sequence[Column]) -> list[str]:
    """The changes from columns `before` to columns `after` that no publish can make, one text for each; empty if none.

    Only NULLABLE and REPEATED columns may be added, and only at the end of the table or STRUCT, where BigQuery adds
    columns. INT64 may become NUMERIC, except inside an ARRAY. REQUIRED may become NULLABLE.
    """
    return list(_refused(before, after, "", widened_columns(before, after)))


def _refused(before: Sequence[Column], after: Sequence[Column], prefix: str, widened: Sequence[str]) -> Iterator[str]:
    """As `refused_column_changes`. `widened`: see `widened_columns`."""
    declared, former_names = {column.name: column for column in after}, {column.name for column in before}
    for column in before:
        path, new = f"{prefix}{column.name}", declared.get(column.name)
        if new is None:
            yield f"column [{path}] is no longer declared (dropped or renamed)"
        elif new.type != column.type and path not in widened:
            yield f"column [{path}] is [{new.type}], it was [{column.type}]"
        elif new.mode is not column.mode and (column.mode, new.mode) != _RELAXED:
            yield f"column [{path}] is [{new.mode}], it was [{column.mode}]"
        else:
            yield from _refused(column.fields, new.fields, f"{path}.", widened)
    for column in after:
        if column.name not in former_names and column.mode is ColumnMode.REQUIRED:
            yield f"new column [{prefix}{column.name}] is REQUIRED, and rows published before have no value of it"
    still_declared = [column.name for column in before if column.name in declared]
    if still_declared != [column.name for column in after][: len(still_declared)]:
        order = ", ".join(f"{prefix}{name}" for name in still_declared)
        yield f"the former columns stand in another order or behind new ones, expected first [{order}]"


def column_sources(
    before: TableContract, after: TableContract, renamed: Mapping[str, str]
) -> list[tuple[Column, Column | None]]:
    """Each column of `after`, with the column of `before` from which it is copied, or None for a new column.

    `renamed`: the new name of each renamed column, by its former name.
    """
    former_names = {new: former for former, new in renamed.items()}
    former_columns = {column.name: column for column in before.columns}
    return [(column, former_columns.get(former_names.get(column.name, column.name))) for column in after.columns]


def needs_rebuild(before: TableContract, after: TableContract) -> bool:
    """Whether the tables differ in a way that no publish can bring about."""
    return before.cluster_by != after.cluster_by or bool(refused_table_changes(before, after))


def changes_keys(before: TableContract, after: TableContract, renamed: Mapping[str, str]) -> bool:
    """Whether the keys are other columns than before, or a key is copied from a column of another name or type."""
    key_sources = [pair for pair in column_sources(before, after, renamed) if pair[0].name in after.keys]
    return before.keys != after.keys or not all(_has_same_name_and_type(*pair) for pair in key_sources)


def rebuild_problems(before: TableContract, after: TableContract, renamed: Mapping[str, str]) -> list[str]:
    """Why a rebuild cannot turn table `before` into `after`, one text for each reason; empty if it can."""
    return list(_problems(before, after, renamed))


def _problems(before: TableContract, after: TableContract, renamed: Mapping[str, str]) -> Iterator[str]:
    if not needs_rebuild(before, after):
        yield "the next publish makes the changes of the feed file, or there are none: no rebuild is needed"
    published, declared = {c.name for c in before.columns}, {c.name for c in after.columns}
    for former, new in renamed.items():
        if former not in published or former in declared or new in published or new not in declared:
            yield (
                f"[{former}={new}] renames no column: expected a published column that the feed file lacks, and "
                f"one that only the feed file has"
            )
    yield from _partitioning_problems(before, after)
    sources = column_sources(before, after, renamed)
    for column, source in sources:
        if column.name == after.partition_column and _partition_date(after) != _partition_date(before):
            continue  # reported above: a rebuild without it in `cluster_by` would not help
        if column.name in (*after.cluster_by, after.partition_column) and not _has_same_name_and_type(column, source):
            yield (
                f"column [{column.name}] clusters or partitions the table, and is new or of another name or type: "
                f"rebuild the table first without it in [cluster_by]"
            )
    if before.column(before.snapshot_id_column) not in [s for c, s in sources if c.name == after.snapshot_id_column]:
        yield f"snapshot_id_column is [{after.snapshot_id_column}], it was [{before.snapshot_id_column}]"
    for column, source in sources:
        yield from _column_problems(column, source)


def _partition_date(table: TableContract) -> tuple[str, str]:
    return table.partition_column, table.date_type


def _partitioning_problems(before: TableContract, after: TableContract) -> Iterator[str]:
    for what, new, former in zip(
        ("partition_column", "type of partition_column"), _partition_date(after), _partition_date(before), strict=True
    ):
        if new != former:
            yield (
                f"{what} is [{new}], it was [{former}], and BigQuery replaces no table by one of another partitioning: "
                f"publish it as a feed of another name, and let readers go there (docs/feeds.md, change the partition "
                f"column)"
            )
    if {before.partition_by, after.partition_by} != {PartitionBy.DAY}:
        yield (
            f"the table is partitioned by [{before.partition_by}], and is to be by [{after.partition_by}], and a "
            f"rebuild exports single days: publish the changed table as a feed of another name (docs/feeds.md, change "
            f"the partition column)"
        )


def _has_same_name_and_type(column: Column, source: Column | None) -> bool:
    return source is not None and (source.name, source.type) == (column.name, column.type)


def _column_problems(column: Column, source: Column | None) -> Iterator[str]:
    if source is None:
        if column.mode is ColumnMode.REQUIRED:
            yield f"new column [{column.name}] is REQUIRED, and published rows have no value of it"
        return
    for path in float64_columns([column]):
        yield (
            f"column [{path}] is FLOAT64, and loses digits in the export that a rebuild needs: declare another type, "
            f"or publish the changed table as a feed of another name"
        )
    was_array, is_array = (part.mode is ColumnMode.REPEATED for part in (source, column))
    changes_type = source.type != column.type
    if was_array != is_array or source.fields != column.fields or (changes_type and (is_array or column.fields)):
        yield f"column [{column.name}] is an ARRAY or STRUCT and changes inside: give the changed one another name"
