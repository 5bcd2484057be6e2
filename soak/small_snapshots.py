"""Generates small snapshots for the long tests. Consecutive snapshots differ in values, new keys and missing keys."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from devstack.producer.demo_feeds import SCHEMA

PRODUCTS = 8
STORE = 2072


def today() -> date:
    return datetime.now(UTC).date()


def small_snapshot(snapshot_id: int, day: date) -> pa.Table:
    """The rows of a snapshot, on date `day` and the date before.

    A snapshot lacks one of the PRODUCTS products, and the next snapshot lacks another one. Each snapshot has one key
    that no other snapshot has.
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
