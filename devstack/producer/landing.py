"""The landing bucket as a producer sees it: what has landed, and how one lands another snapshot."""

import io
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from devstack.producer.schema import SCHEMA

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

MARKER = "_SUCCESS"
_FOLDER = re.compile(r"/snapshot_id=(\d+)/(.+)$")


@dataclass(frozen=True)
class Landed:
    """One delivery, complete: its marker is there."""

    feed: str
    snapshot_id: int
    marker_generation: int
    arrived_at: datetime
    dates: int
    rows: int
    bytes: int
    is_redelivery: bool


def folder(feed: str, snapshot_id: int) -> str:
    return f"{feed}/snapshot_id={snapshot_id}/"


def _objects(bucket: "Bucket", feed: str) -> dict[int, set[str]]:
    """Snapshot id -> names of its objects, relative to its folder."""
    found: dict[int, set[str]] = {}
    for blob in bucket.client.list_blobs(bucket, prefix=f"{feed}/snapshot_id="):
        if match := _FOLDER.search(blob.name):
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def snapshot_ids(bucket: "Bucket", feed: str) -> list[int]:
    """Ids of the complete snapshots in the bucket, ascending."""
    return sorted(id_ for id_, names in _objects(bucket, feed).items() if MARKER in names)


def next_snapshot_id(bucket: "Bucket", feed: str) -> int:
    """Above every id that was ever begun: a folder without a marker is one that was cut off."""
    return max(_objects(bucket, feed), default=0) + 1


def read(bucket: "Bucket", feed: str, snapshot_id: int) -> pa.Table:
    """All rows of a landed snapshot."""
    blobs = bucket.client.list_blobs(bucket, prefix=folder(feed, snapshot_id))
    parts = [
        pq.ParquetFile(io.BytesIO(blob.download_as_bytes())).read().cast(SCHEMA)
        for blob in blobs
        if blob.name.endswith(".parquet")
    ]
    return pa.concat_tables([SCHEMA.empty_table(), *parts])


def land(bucket: "Bucket", feed: str, snapshot_id: int, table: pa.Table) -> Landed:
    """Uploads one file a date, then the marker. What an earlier delivery of the id left in the folder goes first."""
    before = {blob.name for blob in bucket.client.list_blobs(bucket, prefix=folder(feed, snapshot_id))}
    is_redelivery = folder(feed, snapshot_id) + MARKER in before
    for name in sorted(before):
        bucket.blob(name).delete()

    dates = sorted(pc.unique(table["date"]).to_pylist())
    size = 0
    for day in dates:
        content = _parquet(table.filter(pc.equal(table["date"], pa.scalar(day))))
        blob = bucket.blob(f"{folder(feed, snapshot_id)}date={day.isoformat()}/part-00000.parquet")
        blob.upload_from_string(content, content_type="application/octet-stream")
        size += len(content)

    marker = bucket.blob(folder(feed, snapshot_id) + MARKER)
    marker.upload_from_string(b"", content_type="application/octet-stream")
    marker.reload()
    return Landed(
        feed=feed,
        snapshot_id=snapshot_id,
        marker_generation=int(marker.generation),
        arrived_at=marker.time_created,
        dates=len(dates),
        rows=table.num_rows,
        bytes=size,
        is_redelivery=is_redelivery,
    )


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table.sort_by([(name, "ascending") for name in SCHEMA.names]), sink, compression="snappy")
    return sink.getvalue()
