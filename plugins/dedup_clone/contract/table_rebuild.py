"""Decides which changes of a table need a rebuild, whether a rebuild can make them, and from where columns are copied.

A rebuild writes the live rows of table `before` anew, as the changed feed file declares the table (`after`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dedup_clone.contract.schema_change import refused_table_changes
from dedup_clone.contract.table import Column, ColumnMode, TableContract, float64_columns


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


def makes_staging_anew(before: TableContract, after: TableContract) -> bool:
    """Whether a rebuild must drop and create staging, because columns or clustering differ."""
    return (before.columns, before.cluster_by) != (after.columns, after.cluster_by)


def columns_differ(before: TableContract, after: TableContract) -> bool:
    """Whether the columns differ, so that a rebuild must copy the rows. Other keys or clustering need no copy."""
    return before.columns != after.columns


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
    if before.partition_column != after.partition_column:
        yield (
            f"partition_column is [{after.partition_column}], it was [{before.partition_column}], and BigQuery "
            f"replaces no table by one of another partitioning: publish it as a feed of another name, and let readers "
            f"go there (docs/feeds.md, change the partition column)"
        )
    sources = column_sources(before, after, renamed)
    for column, source in sources:
        if column.name == after.partition_column != before.partition_column:
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
