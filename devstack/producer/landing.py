"""Reads and writes snapshots in the landing bucket."""

import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.delivery import Delivery
from dedup_clone.settings.feed import Feed
from dedup_spark.arrow_cast import dates_of

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

_OBJECT = re.compile(r"/snapshot_id=(0|[1-9]\d*)/(.+)$")
_FILE_COUNT = 4  # of a snapshot without date folders; each file has rows of any date


@dataclass(frozen=True)
class Landed:
    """One complete delivery that has landed.

    `arrived_at`: its marker's creation time. `is_redelivery`: whether a complete delivery of the same snapshot was
    there before.
    """

    feed: str
    delivery: Delivery
    folder: str
    arrived_at: datetime
    date_count: int
    row_count: int
    byte_count: int
    is_redelivery: bool

    @property
    def run_id(self) -> str:
        """The id of the delivery's first publish run, which the watch DAG derives from the delivery."""
        return f"publish__{self.delivery.snapshot_id}__{self.delivery.marker_generation}"


def folder_of(prefix: str, snapshot_id: int) -> str:
    return f"{prefix}/snapshot_id={snapshot_id}/"


def _objects(bucket: "Bucket", prefix: str) -> dict[int, dict[str, int]]:
    """The object generations of each snapshot's objects, by snapshot id and by name below the snapshot's folder."""
    found: dict[int, dict[str, int]] = {}
    for blob in bucket.client.list_blobs(bucket, prefix=f"{prefix}/snapshot_id="):
        if match := _OBJECT.search(blob.name):
            found.setdefault(int(match[1]), {})[match[2]] = int(blob.generation)
    return found


def snapshot_ids(
    bucket: "Bucket", prefix: str, marker: str = "_SUCCESS", refused: Collection[Delivery] = ()
) -> list[int]:
    """Ids of the complete snapshots in the bucket, ascending, without those that were `refused` as they lie there."""
    return sorted(
        id_
        for id_, objects in _objects(bucket, prefix).items()
        if marker in objects and Delivery(id_, objects[marker]) not in refused
    )


def next_snapshot_id(bucket: "Bucket", prefix: str) -> int:
    """One more than the highest snapshot id in the bucket, also if that snapshot is incomplete."""
    return max(_objects(bucket, prefix), default=0) + 1


def read(bucket: "Bucket", prefix: str, snapshot_id: int, schema: pa.Schema) -> pa.Table:
    """All rows of a landed snapshot."""
    blobs = bucket.client.list_blobs(bucket, prefix=folder_of(prefix, snapshot_id))
    contents = (blob.download_as_bytes() for blob in blobs if blob.name.endswith(".parquet"))
    parts = (pq.ParquetFile(io.BytesIO(content)).read().cast(schema) for content in contents)
    return pa.concat_tables([schema.empty_table(), *parts])


def land(bucket: "Bucket", feed: Feed, snapshot_id: int, table: pa.Table) -> Landed:
    """Land a snapshot: delete an earlier delivery of it, its marker first; upload the files, and last the marker."""
    folder = folder_of(feed.landing.prefix, snapshot_id)
    marker = bucket.blob(folder + feed.landing.marker)
    names_before = {blob.name for blob in bucket.client.list_blobs(bucket, prefix=folder)}
    for name in sorted(names_before, key=lambda name: (name != marker.name, name)):
        bucket.blob(name).delete()

    size = 0
    for name, rows in _files(table, feed):
        content = _parquet(rows)
        bucket.blob(folder + name).upload_from_string(content, content_type="application/octet-stream")
        size += len(content)
    marker.upload_from_string(b"", content_type="application/octet-stream")
    marker.reload()
    return Landed(
        feed=feed.feed,
        delivery=Delivery(snapshot_id, int(marker.generation)),
        folder=folder,
        arrived_at=marker.time_created,
        date_count=pc.count_distinct(dates_of(table[feed.table.partition_column])).as_py(),
        row_count=table.num_rows,
        byte_count=size,
        is_redelivery=marker.name in names_before,
    )


def _files(table: pa.Table, feed: Feed) -> Iterator[tuple[str, pa.Table]]:
    """The files of a snapshot: each file's name below the snapshot's folder, and its rows."""
    if not feed.landing.date_folders:
        rows_each = -(-table.num_rows // _FILE_COUNT)
        for number in range(_FILE_COUNT):
            yield f"part-{number:05d}.parquet", table.slice(number * rows_each, rows_each)
        return
    folder, dates = feed.table.to_contract().date_folder, dates_of(table[feed.table.partition_column])
    for day in sorted(pc.unique(dates).to_pylist()):
        yield f"{folder}={day.isoformat()}/part-00000.parquet", table.filter(pc.equal(dates, pa.scalar(day)))


def _parquet(table: pa.Table) -> bytes:
    """The content of a Parquet file with these rows, sorted by the columns that are neither STRUCT nor array."""
    sink = io.BytesIO()
    sortable = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
    pq.write_table(table.sort_by([(name, "ascending") for name in sortable]), sink, compression="snappy")
    return sink.getvalue()
