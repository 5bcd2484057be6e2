"""Makes the next snapshot of a feed from the newest valid one with a lower id, and lands it."""

import zlib
from collections.abc import Collection
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from dedup_clone.contract.delivery import Delivery
from dedup_clone.settings.feed import Feed
from dedup_clone.state.arrivals import Arrivals
from dedup_clone.state.store import ObjectStore
from devstack.connection import Connection
from devstack.producer import declared_snapshots, feeds, landing, worked_example
from devstack.producer.feeds import EXAMPLE_FEED, REALISTIC_FEED

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

ROWS_PER_DATE = {REALISTIC_FEED: 8_000}  # of a new date; 1,000 for other feeds


def land(connection: Connection, name: str, snapshot_id: int | None = None) -> landing.Landed:
    """Land a feed's next snapshot, whose newest date is today. `snapshot_id`: None for the next id.

    Raises ConfigurationError if the feed's file is invalid.
    """
    feed = feeds.read(name)
    bucket = connection.storage_client().bucket(connection.landing_bucket)
    snapshot_id = snapshot_id or landing.next_snapshot_id(bucket, feed.landing.prefix)
    rows = make(bucket, feed, snapshot_id, datetime.now(UTC).date(), refused_deliveries(connection, name))
    return landing.land(bucket, feed, snapshot_id, rows)


def refused_deliveries(connection: Connection, feed: str) -> Collection[Delivery]:
    return Arrivals(ObjectStore(connection.storage_client(), connection.state_bucket), feed).lists().refused


def make(bucket: "Bucket", feed: Feed, snapshot_id: int, day: date, refused: Collection[Delivery] = ()) -> pa.Table:
    """The rows of the snapshot with this id. The same valid snapshots, id and day always give the same rows."""
    table = feed.table.to_contract()
    previous = _newest_valid(bucket, feed, snapshot_id, declared_snapshots.schema(table), refused)
    if feed.feed == EXAMPLE_FEED:
        return worked_example.make(day, snapshot_id, previous)
    seed, rows_per_date = zlib.crc32(feed.feed.encode()), ROWS_PER_DATE.get(feed.feed, 1_000)
    if previous is None:
        return declared_snapshots.first(table, day, snapshot_id, seed, rows_per_date)
    return declared_snapshots.following(table, previous, day, snapshot_id, seed, rows_per_date)


def _newest_valid(
    bucket: "Bucket", feed: Feed, snapshot_id: int, schema: pa.Schema, refused: Collection[Delivery]
) -> pa.Table | None:
    """The newest landed snapshot with a lower id that is valid; None without one.

    It was not `refused` and, because that may be still to come, has the feed's columns and no NULL in a key.
    """
    for landed_id in reversed(landing.snapshot_ids(bucket, feed.landing.prefix, feed.landing.marker, refused)):
        if landed_id >= snapshot_id:
            continue
        try:
            rows = landing.read(bucket, feed.landing.prefix, landed_id, schema)
        except (ValueError, NotImplementedError):  # a file is no Parquet file, or has other columns
            continue
        if rows.num_rows and not any(rows[key].null_count for key in feed.table.keys):
            return rows
    return None
