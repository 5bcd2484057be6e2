"""Makes rows on as many dates as a test needs."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

NEWEST = date(2026, 3, 31)


def rows(snapshot_id: int, dates: int) -> list[dict[str, Any]]:
    """One row on each of `dates` dates, the newest of which is NEWEST."""
    values = {"store_id": 1, "attribute_id": 1, "attr_value": 20, "update_id": snapshot_id}
    return [{"date": NEWEST - timedelta(days=n), "product_id": n, **values} for n in range(dates)]
