"""Small snapshots in which every kind of row occurs: equal keys, changed values, a new key, a missing one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from devstack.producer.schema import SCHEMA

PRODUCTS = 8
STORE = 2072


def today() -> date:
    return datetime.now(UTC).date()


def small_snapshot(snapshot_id: int, day: date) -> pa.Table:
    """Two dates; one of eight products is missing in turn, and one key is this snapshot's own."""
    missing = snapshot_id % PRODUCTS
    rows = [
        (each, product, STORE, 1, snapshot_id * 10 + product, snapshot_id)
        for each in (day - timedelta(days=1), day)
        for product in range(PRODUCTS)
        if product != missing
    ]
    rows.append((day, 1000 + snapshot_id, STORE, 1, 7, snapshot_id))
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column) for column in columns], names=SCHEMA.names).cast(SCHEMA)
