"""All 24 orders in which four snapshots can arrive, tested at the same time.

Each order has a date of its own, in which one snapshot is corrected later and one is delivered twice. A step publishes
the next delivery of every date's order. So a step has at most four deliveries, with rows of different dates.
"""

from __future__ import annotations

import itertools
from datetime import date, timedelta
from typing import Any

Row = dict[str, Any]

CORRECTED = 2
REPEATED = 3
_CORRECTION = -CORRECTED


def orders() -> list[list[int]]:
    """One order for each date. The correction comes after the corrected snapshot, the repeat after the first one."""
    found = []
    for number, order in enumerate(itertools.permutations((1, 2, 3, 4))):
        sequence = list(order)
        for snapshot, later in ((CORRECTED, _CORRECTION), (REPEATED, REPEATED)):
            positions = range(sequence.index(snapshot) + 1, len(sequence) + 1)
            sequence.insert(positions[number % len(positions)], later)
        found.append(sequence)
    return found


def steps(first_day: date) -> list[dict[int, list[Row]]]:
    """The deliveries of each step: snapshot id -> rows."""
    sequences = orders()
    found: list[dict[int, list[Row]]] = []
    for position in range(len(sequences[0])):
        deliveries: dict[int, list[Row]] = {}
        for number, sequence in enumerate(sequences):
            rows = _rows(sequence[position], first_day + timedelta(days=number))
            deliveries.setdefault(abs(sequence[position]), []).extend(rows)
        found.append(dict(sorted(deliveries.items())))
    return found


def _rows(what: int, day: date) -> list[Row]:
    """Rows with keys of all, some or one snapshot. The correction has a lower value, and one other key."""
    snapshot_id = abs(what)
    values = {1: 10 * snapshot_id, 5: 7, 10 + snapshot_id: snapshot_id}
    if snapshot_id % 2 == 0:
        values[2] = 20 + snapshot_id
    if what == _CORRECTION:
        values[1] = 3
        del values[10 + snapshot_id]
        values[22] = 22
    return [
        {
            "date": day,
            "product_id": product,
            "store_id": 1,
            "attribute_id": 1,
            "attr_value": value,
            "update_id": snapshot_id,
        }
        for product, value in values.items()
    ]
