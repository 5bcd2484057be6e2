"""The columns that BigQuery finds in landed files against those that the feed declares."""

from __future__ import annotations

from collections.abc import Iterable

from dedup_clone.contract.table import Column, ColumnMode


def column_problems(declared: Iterable[Column], found: Iterable[Column], prefix: str = "") -> list[str]:
    """What is wrong, column by column; order does not matter, and what may be NULL is judged on the rows."""
    expected = {column.name: column for column in declared}
    problems = []
    for column in found:
        wanted = expected.pop(column.name, None)
        path = f"{prefix}{column.name}"
        if wanted is None:
            problems.append(f"column [{path}] is not declared in the feed file")
        elif _kind(column) != _kind(wanted):
            problems.append(f"column [{path}] is [{_kind(column)}], expected [{_kind(wanted)}]")
        else:
            problems += column_problems(wanted.fields, column.fields, f"{path}.")
    return problems + [f"column [{prefix}{c.name}] is missing, expected [{_kind(c)}]" for c in expected.values()]


def _kind(column: Column) -> str:
    return f"ARRAY of {column.type}" if column.mode is ColumnMode.REPEATED else column.type
