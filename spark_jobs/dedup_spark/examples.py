"""Examples of keys in a candidate: a few for each date and difference, as text, for whoever asks what differs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dedup_clone.contract.manifest import DateEntry, Difference, KeyExample
from dedup_clone.contract.table import TableContract
from dedup_spark.fingerprints.key_columns import key_columns

MOST_A_DATE = 3
_MOST_DATES = 20


def key_texts(table: TableContract, columns: Sequence[Sequence[Any]]) -> list[str]:
    """One text a row from the values of the key columns (see `key_columns`): `product_id=7, store_id=2072`."""
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
        return f"{value.normalize():f}"
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def choose_examples(found: Iterable[KeyExample], dates: Iterable[DateEntry]) -> tuple[KeyExample, ...]:
    """At most three a date and difference, of the twenty dates that have the most of each difference."""
    entries = {entry.date: entry for entry in dates}
    by_difference: defaultdict[Difference, list[KeyExample]] = defaultdict(list)
    for example in found:
        by_difference[example.difference].append(example)
    chosen: list[KeyExample] = []
    for difference in Difference:
        days = _largest(by_difference[difference], entries, difference)
        taken: Counter[date] = Counter()
        for example in sorted(by_difference[difference], key=lambda e: (e.date, e.key)):
            if example.date in days and taken[example.date] < MOST_A_DATE:
                taken[example.date] += 1
                chosen.append(example)
    return tuple(chosen)


def _largest(found: list[KeyExample], entries: Mapping[date, DateEntry], difference: Difference) -> set[date]:
    days = {example.date for example in found if example.date in entries}
    return set(sorted(days, key=lambda day: (-_count(entries[day], difference), day))[:_MOST_DATES])


def _count(entry: DateEntry, difference: Difference) -> int:
    counts = {
        Difference.NEW: entry.new_keys,
        Difference.CHANGED: entry.changed or 0,
        Difference.SURVIVOR: entry.survivors,
    }
    return counts[difference]
