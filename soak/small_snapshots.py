"""Generates small snapshots that differ from each other in every way: changed values, a new key, a missing key."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from devstack.producer.demo_feeds import SCHEMA

PRODUCTS = 8
STORE = 2072


def today() -> date:
    return datetime.now(UTC).date()


def small_snapshot(snapshot_id: int, day: date) -> pa.Table:
    """A snapshot with the date `day` and the date before.

    Consecutive snapshots lack different ones of the PRODUCTS products, and each has one key that no other has.
    """
    missing_product = snapshot_id % PRODUCTS
    rows = [
        (row_day, product, STORE, 1, snapshot_id * 10 + product, snapshot_id)
        for row_day in (day - timedelta(days=1), day)
        for product in range(PRODUCTS)
        if product != missing_product
    ]
    rows.append((day, 1000 + snapshot_id, STORE, 1, 7, snapshot_id))
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column) for column in columns], names=SCHEMA.names).cast(SCHEMA)
