"""Makes random snapshots of the table NESTED of testkit.table_contracts, on dates that have not expired."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

from testkit.fake_dedup_job import Row
from testkit.feed_on_stand_in import today
from testkit.table_contracts import NESTED
from tests.shared.random_rows import FIRST_DAY, random_rows


def oldest() -> date:
    """The oldest date that has not expired today. Tomorrow it will have."""
    return today() - timedelta(days=NESTED.retention_days - 1)


def snapshot(random: Random, number: int) -> list[Row]:
    """The rows of snapshot `number` on three dates from the oldest on, one of which is missing."""
    rows = (row for _ in range(3) for row in random_rows(random, number, 3, [number % 3]))
    return [{**row, "day": row["day"] + (oldest() - FIRST_DAY)} for row in rows]
