"""Selects examples of keys for the candidate, as text: a few for each date and kind of difference."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dedup_clone.contract.manifest import DATES_WITH_EXAMPLES, EXAMPLES_PER_DATE, DateEntry, Difference, KeyExample
from dedup_clone.contract.table import NUMERIC_CONTEXT, TableContract
from dedup_spark.fingerprints.key_columns import key_columns


def key_texts(table: TableContract, columns: Sequence[Sequence[Any]]) -> list[str]:
    """Return one text for each row, such as `product_id=7, store_id=2072`. `columns`: the values of each key column."""
    names = [column.name for column in key_columns(table)]
    return [
        ", ".join(f"{name}={_text(value)}" for name, value in zip(names, row, strict=True))
        for row in zip(*columns, strict=True)
    ]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value.normalize(NUMERIC_CONTEXT):f}"
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def select_examples(examples: Iterable[KeyExample], dates: Iterable[DateEntry]) -> tuple[KeyExample, ...]:
    """Return for each difference the examples of the twenty dates with the most such rows, at most three a date."""
    entries = {entry.date: entry for entry in dates}
    by_difference: defaultdict[Difference, list[KeyExample]] = defaultdict(list)
    for example in examples:
        by_difference[example.difference].append(example)
    selected: list[KeyExample] = []
    for difference in Difference:
        days = _dates_with_most_rows(by_difference[difference], entries, difference)
        counts: Counter[date] = Counter()
        for example in sorted(by_difference[difference], key=lambda e: (e.date, e.key)):
            if example.date in days and counts[example.date] < EXAMPLES_PER_DATE:
                counts[example.date] += 1
                selected.append(example)
    return tuple(selected)


def _dates_with_most_rows(
    examples: list[KeyExample], entries: Mapping[date, DateEntry], difference: Difference
) -> set[date]:
    """The dates of `examples` on which the most rows have the difference, at most DATES_WITH_EXAMPLES."""
    days = {example.date for example in examples if example.date in entries}
    return set(sorted(days, key=lambda day: (-_count(entries[day], difference), day))[:DATES_WITH_EXAMPLES])


def _count(entry: DateEntry, difference: Difference) -> int:
    """How many rows of the date have this difference."""
    counts = {
        Difference.NEW: entry.new_keys,
        Difference.CHANGED: entry.changed or 0,
        Difference.SURVIVOR: entry.survivors,
    }
    return counts[difference]
