"""Makes the next snapshot of a feed from the newest landed one with a lower id."""

import zlib
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from dedup_clone.settings.feed import Feed
from devstack.producer import declared_snapshots, feeds, landing, realistic_snapshots, worked_example
from devstack.producer.demo_feeds import EXAMPLE_FEED, REALISTIC_FEED

if TYPE_CHECKING:
    from google.cloud.storage import Bucket


def make(bucket: "Bucket", feed: str, snapshot_id: int, day: date) -> pa.Table:
    """The rows of the snapshot with this id. The same landed snapshots, id and day always give the same rows."""
    if feed not in (EXAMPLE_FEED, REALISTIC_FEED):
        return _declared(bucket, feeds.read(feed), snapshot_id, day)
    earlier = [id_ for id_ in landing.snapshot_ids(bucket, feed) if id_ < snapshot_id]
    previous = landing.read(bucket, feed, earlier[-1]) if earlier else None
    if feed == EXAMPLE_FEED:
        return _example(previous, snapshot_id, day)
    seed = zlib.crc32(feed.encode())
    if previous is None:
        return realistic_snapshots.first(day, snapshot_id, seed)
    return realistic_snapshots.following(previous, day, snapshot_id, seed)[0]


def _declared(bucket: "Bucket", feed: Feed, snapshot_id: int, day: date) -> pa.Table:
    """A snapshot of a feed other than the two of the demo, with random rows that fit its feed file."""
    table, layout = feeds.table_of(feed), feeds.landing_layout(feed)
    seed = zlib.crc32(feed.feed.encode())
    earlier = [id_ for id_ in landing.snapshot_ids(bucket, layout.prefix, layout.marker) if id_ < snapshot_id]
    if not earlier:
        return declared_snapshots.first(table, day, snapshot_id, seed)
    previous = landing.read(bucket, layout.prefix, earlier[-1], declared_snapshots.schema(table))
    return declared_snapshots.following(table, previous, day, snapshot_id, seed)[0]


def _example(previous: pa.Table | None, snapshot_id: int, day: date) -> pa.Table:
    """The worked example's first snapshot if no earlier one has landed or the id is odd, otherwise its second."""
    if previous is None or snapshot_id % 2 == 1:
        return worked_example.before(day, snapshot_id, previous)
    return worked_example.after(day, snapshot_id, previous)
