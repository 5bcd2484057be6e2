"""Describes what is wrong with a landed file: columns that differ from the feed's, and rows that break a rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.parquet_columns import describe_undeclared
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.state.parquet_footers import ParquetLeaf


def column_problems(declared: Iterable[Column], found: Iterable[Column], prefix: str = "") -> list[str]:
    """One text for each missing, undeclared or differently typed column. Order and NOT NULL do not matter.

    `prefix`: the path of the STRUCT that the columns are in, with a dot at the end; empty for top-level columns.
    """
    missing = {column.name: column for column in declared}
    declared_paths = [f"{prefix}{name}" for name in missing]
    problems = []
    for column in found:
        expected = missing.pop(column.name, None)
        path = f"{prefix}{column.name}"
        if expected is None:
            problems.append(describe_undeclared(path, declared_paths))
        elif _type_text(column) != _type_text(expected):
            problems.append(f"column [{path}] is [{_type_text(column)}], expected [{_type_text(expected)}]")
        else:
            problems += column_problems(expected.fields, column.fields, f"{path}.")
    return problems + [f"column [{prefix}{c.name}] is missing, expected [{_type_text(c)}]" for c in missing.values()]


def with_datetime(found: Iterable[Column], leaves: Iterator[ParquetLeaf]) -> tuple[Column, ...]:
    """The columns `found` by BigQuery in a file, but with type DATETIME for local times.

    BigQuery shows a local time (a Parquet timestamp that is not adjusted to UTC) as TIMESTAMP. `leaves`: the columns
    without fields in the file's footer, in the order of `found`; each call consumes those of its columns.
    """
    columns = []
    for column in found:
        if column.fields:
            columns.append(replace(column, fields=with_datetime(column.fields, leaves)))
        else:
            leaf = next(leaves, None)
            is_local = leaf is not None and "isAdjustedToUTC=false" in leaf.logical_type and column.type == "TIMESTAMP"
            columns.append(replace(column, type="DATETIME") if is_local else column)
    return tuple(columns)


def row_problems(request: DedupRequest, arrival: Arrival, count: Mapping[str, Any]) -> list[str]:
    """One text for each rule that a file's rows break. `count`: the row of examine_delivery.sql for the file."""
    table, date_column = request.table, request.table.partition_column
    problems = [
        f"column [{null['name']}]: {null['row_count']} rows are [NULL], expected none"
        for null in sorted(count["null_counts"], key=lambda item: str(item["name"]))
        if null["row_count"]
    ]
    if count["late_rows"]:
        problems.append(
            f"column [{date_column}]: {count['late_rows']} rows have a date up to [{count['last_day']}], "
            f"expected at most [{request.latest_day}]"
        )
    if count["other_day_rows"]:
        folder_day = str(count["file_name"]).rsplit("/", 2)[1].partition("=")[2]
        problems.append(
            f"column [{date_column}]: {count['other_day_rows']} rows have another date such as [{count['other_day']}], "
            f"expected its folder's [{folder_day}]"
        )
    if count["other_id_rows"]:
        problems.append(
            f"column [{table.snapshot_id_column}]: {count['other_id_rows']} rows have another id, "
            f"expected the folder's [{arrival.delivery.snapshot_id}]"
        )
    return [f"file [{count['file_name']}] {problem}" for problem in problems]


def _type_text(column: Column) -> str:
    return f"ARRAY of {column.type}" if column.mode is ColumnMode.REPEATED else column.type
