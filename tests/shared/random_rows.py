"""Makes many random rows of the table NESTED of testkit.table_contracts.

There are few different keys and values, so that snapshots share keys, and rows with equal values are frequent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

FIRST_DAY = date(2026, 3, 1)
_NAMES = ["", "a", "ab", "é", "z", "\uffee", "\U0001f600"]  # the last two sort in another order as UTF-16 than as UTF-8
_AMOUNTS = [None, -math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]
_BYTES = [None, b"", b"\x00", b"\x7f", b"\x80", b"\xff"]
_PRICES = [None, Decimal("-0.000000001"), Decimal("0.000000000"), Decimal("7.500000000")]


def random_rows(random: Random, snapshot_id: int, days: int, missing_days: Sequence[int]) -> list[dict[str, Any]]:
    """One snapshot: up to 150 rows on `days` dates from FIRST_DAY on, some keys more than once.

    `missing_days`: the numbers of dates, from 0, that the snapshot lacks.
    """
    present = [n for n in range(days) if n not in missing_days]
    return [_row(random, snapshot_id, random.choice(present)) for _ in range(random.choice([1, 40, 150]))]


def _row(random: Random, snapshot_id: int, day: int) -> dict[str, Any]:
    """A row, mostly with the usual values, so that unchanged rows and duplicate rows with equal values are frequent."""
    is_usual = random.random() < 0.6
    return {
        "amount": 2.0 if is_usual else random.choice(_AMOUNTS),
        "name": random.choice(_NAMES),
        "day": FIRST_DAY + timedelta(days=day),
        "note": "same" if is_usual else random.choice([None, *_NAMES]),
        "seen": random.choice([None, False, True]) if random.random() < 0.3 else True,
        "raw": b"r" if is_usual else random.choice(_BYTES),
        "code": random.choice([-1, 0, 7]),
        "tags": ["x"] if is_usual else random.choice([[], ["x"], ["x", "a"], ["x", "z"], ["xy"]]),
        "info": _info(random) if random.random() < 0.3 else {"weight": 1.0, "label": "l"},
        "parts": _parts(random) if random.random() < 0.3 else [],
        "version": snapshot_id,
    }


def _info(random: Random) -> dict[str, Any] | None:
    return random.choice([None, {"weight": random.choice(_AMOUNTS), "label": random.choice([None, "k", "l"])}])


def _parts(random: Random) -> list[dict[str, Any]]:
    count = random.randrange(3)
    return [{"number": random.choice([None, 1, 2]), "price": random.choice(_PRICES)} for _ in range(count)]
