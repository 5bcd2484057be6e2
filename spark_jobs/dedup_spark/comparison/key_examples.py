"""Selects examples of keys for the candidate, as text: a few for each date and kind of difference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
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
    counts: dict[tuple[Difference, date], int] = {}
    for entry in dates:
        counts[Difference.NEW, entry.date] = entry.new_keys
        counts[Difference.CHANGED, entry.date] = entry.changed or 0
        counts[Difference.SURVIVOR, entry.date] = entry.survivors
    found: defaultdict[tuple[Difference, date], list[KeyExample]] = defaultdict(list)
    for example in examples:
        found[example.difference, example.date].append(example)
    selected: list[KeyExample] = []
    for difference in Difference:
        groups = [group for group in found if group[0] is difference and group in counts]
        most = sorted(groups, key=lambda group: (-counts[group], group))[:DATES_WITH_EXAMPLES]
        for group in sorted(most):
            selected += sorted(found[group], key=lambda example: example.key)[:EXAMPLES_PER_DATE]
    return tuple(selected)
