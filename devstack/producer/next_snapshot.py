"""Makes the next snapshot of a feed from the newest valid one with a lower id."""

import zlib
from collections.abc import Collection
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from dedup_clone.contract.delivery import Delivery
from dedup_clone.settings.feed import Feed
from devstack.producer import declared_snapshots, feeds, landing, worked_example
from devstack.producer.feeds import EXAMPLE_FEED, ROWS_PER_DATE

if TYPE_CHECKING:
    from google.cloud.storage import Bucket


def make(bucket: "Bucket", feed: str, snapshot_id: int, day: date, refused: Collection[Delivery] = ()) -> pa.Table:
    """The rows of the snapshot with this id. The same valid snapshots, id and day always give the same rows."""
    settings = feeds.read(feed)
    table = feeds.table_of(settings)
    previous = newest_valid(bucket, settings, snapshot_id, declared_snapshots.schema(table), refused)
    if feed == EXAMPLE_FEED:
        return _example(previous, snapshot_id, day)
    seed, rows_per_date = zlib.crc32(feed.encode()), ROWS_PER_DATE.get(feed, 1_000)
    if previous is None:
        return declared_snapshots.first(table, day, snapshot_id, seed, rows_per_date)
    return declared_snapshots.following(table, previous, day, snapshot_id, seed, rows_per_date)


def newest_valid(
    bucket: "Bucket", feed: Feed, snapshot_id: int, schema: pa.Schema, refused: Collection[Delivery]
) -> pa.Table | None:
    """The newest landed snapshot with a lower id that is valid; None without one.

    It was not `refused` and, because that may be still to come, has the feed's columns and no NULL in a key.
    """
    at, keys = feed.landing, feed.table.keys
    for landed_id in reversed(landing.snapshot_ids(bucket, at.prefix, at.marker, refused)):
        if landed_id >= snapshot_id:
            continue
        try:
            rows = landing.read(bucket, at.prefix, landed_id, schema)
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
