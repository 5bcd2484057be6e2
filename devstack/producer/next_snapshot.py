"""Makes the next snapshot of a feed from the newest valid one with a lower id."""

import zlib
from collections.abc import Collection
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from dedup_clone.contract.delivery import Delivery
from dedup_clone.settings.feed import Feed
from devstack.producer import declared_snapshots, feeds, landing, realistic_snapshots, worked_example
from devstack.producer.demo_feeds import EXAMPLE_FEED, REALISTIC_FEED, SCHEMA

if TYPE_CHECKING:
    from google.cloud.storage import Bucket


def make(bucket: "Bucket", feed: str, snapshot_id: int, day: date, refused: Collection[Delivery] = ()) -> pa.Table:
    """The rows of the snapshot with this id. The same valid snapshots, id and day always give the same rows."""
    if feed not in (EXAMPLE_FEED, REALISTIC_FEED):
        return _declared(bucket, feeds.read(feed), snapshot_id, day, refused)
    previous = newest_valid(bucket, feeds.read(feed), snapshot_id, SCHEMA, refused)
    if feed == EXAMPLE_FEED:
        return _example(previous, snapshot_id, day)
    seed = zlib.crc32(feed.encode())
    if previous is None:
        return realistic_snapshots.first(day, snapshot_id, seed)
    return realistic_snapshots.following(previous, day, snapshot_id, seed)[0]


def _declared(bucket: "Bucket", feed: Feed, snapshot_id: int, day: date, refused: Collection[Delivery]) -> pa.Table:
    """A snapshot of a feed other than the two of the demo, with random rows that fit its feed file."""
    table, seed = feeds.table_of(feed), zlib.crc32(feed.feed.encode())
    previous = newest_valid(bucket, feed, snapshot_id, declared_snapshots.schema(table), refused)
    if previous is None:
        return declared_snapshots.first(table, day, snapshot_id, seed)
    return declared_snapshots.following(table, previous, day, snapshot_id, seed)[0]


def newest_valid(
    bucket: "Bucket", feed: Feed, snapshot_id: int, schema: pa.Schema, refused: Collection[Delivery]
) -> pa.Table | None:
    """The newest landed snapshot with a lower id that is valid; None without one.

    It was not `refused` and, because that may be still to come, has the feed's columns and no NULL in a key.
    """
    layout, keys = feeds.landing_layout(feed), feeds.table_of(feed).keys
    for landed_id in reversed(landing.snapshot_ids(bucket, layout.prefix, layout.marker, refused)):
        if landed_id >= snapshot_id:
            continue
        try:
            rows = landing.read(bucket, layout.prefix, landed_id, schema)
        except (ValueError, NotImplementedError):  # a file is no Parquet file, or has other columns
            continue
        if rows.num_rows and not any(rows[key].null_count for key in keys):
            return rows
    return None


def _example(previous: pa.Table | None, snapshot_id: int, day: date) -> pa.Table:
    """The worked example's first snapshot if no earlier one has landed or the id is odd, otherwise its second."""
    if previous is None or snapshot_id % 2 == 1:
        return worked_example.before(day, snapshot_id, previous)
    return worked_example.after(day, snapshot_id, previous)
