"""Makes deliveries in all 24 orders in which four snapshots can arrive, for one test of all orders at once.

Each order is that of one date. In each, one snapshot is corrected later, and one is delivered twice. A step publishes
the next delivery of every date's order, so it has at most four deliveries, each with rows of several dates.
"""

from __future__ import annotations

import itertools
from datetime import date, timedelta
from typing import Any

Row = dict[str, Any]

CORRECTED = 2  # id of the snapshot that is corrected later
REPEATED = 3  # id of the snapshot that is delivered twice
_CORRECTION = -CORRECTED  # stands for the correction in an order


def orders() -> list[list[int]]:
    """The order of each date: snapshot ids and, somewhere after id CORRECTED, _CORRECTION. REPEATED is there twice."""
    found = []
    for number, order in enumerate(itertools.permutations((1, 2, 3, 4))):
        sequence = list(order)
        for snapshot, later in ((CORRECTED, _CORRECTION), (REPEATED, REPEATED)):
            positions = range(sequence.index(snapshot) + 1, len(sequence) + 1)
            sequence.insert(positions[number % len(positions)], later)
        found.append(sequence)
    return found


def steps(first_day: date) -> list[dict[int, list[Row]]]:
    """The rows of each delivery of each step, by snapshot id. `first_day`: the date of the first order."""
    sequences = orders()
    found: list[dict[int, list[Row]]] = []
    for position in range(len(sequences[0])):
        deliveries: dict[int, list[Row]] = {}
        for number, sequence in enumerate(sequences):
            rows = _rows(sequence[position], first_day + timedelta(days=number))
            deliveries.setdefault(abs(sequence[position]), []).extend(rows)
        found.append(dict(sorted(deliveries.items())))
    return found


def _rows(delivered: int, day: date) -> list[Row]:
    """The rows of a date in a delivery. `delivered`: an element of an order.

    Some keys are in all snapshots, one in every second, and one in a single snapshot. The correction has a lower value
    for one key, and another key in place of one.
    """
    snapshot_id = abs(delivered)
    values = {1: 10 * snapshot_id, 5: 7, 10 + snapshot_id: snapshot_id}
    if snapshot_id % 2 == 0:
        values[2] = 20 + snapshot_id
    if delivered == _CORRECTION:
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
