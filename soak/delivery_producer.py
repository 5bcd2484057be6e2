"""Lands small snapshots with ascending ids for the long tests, and remembers all deliveries.

The files of all snapshots are uploaded before any marker, so that the markers of many snapshots can arrive at once.
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from devstack.producer import landing
from devstack.producer.landing import Landed
from soak.small_snapshots import small_snapshot, today

MARKER = "_SUCCESS"


@dataclass
class DeliveryProducer:
    """Lands deliveries of any feed that has the worked example's columns.

    `bucket`: the landing bucket. `next_id`: the id of the next snapshot of any feed. `landed`: the deliveries of each
    feed in the order of their landing.
    """

    bucket: Any
    next_id: int = 1
    landed: dict[str, list[Landed]] = field(default_factory=dict)

    def land(self, feed: str) -> Landed:
        return self.land_at_once(feed, 1)[0]

    def land_at_once(self, feed: str, count: int) -> list[Landed]:
        """Land `count` snapshots: all files first, then all markers in parallel. Returns the deliveries."""
        tables = {
            snapshot_id: small_snapshot(snapshot_id, today())
            for snapshot_id in range(self.next_id, self.next_id + count)
        }
        self.next_id += count
        for snapshot_id, table in tables.items():
            self._upload_files(feed, snapshot_id, table)
        with ThreadPoolExecutor(count) as pool:
            landed = list(
                pool.map(lambda snapshot_id: self._upload_marker(feed, snapshot_id, tables[snapshot_id]), tables)
            )
        self.landed.setdefault(feed, []).extend(landed)
        return landed

    def _upload_files(self, feed: str, snapshot_id: int, table: pa.Table) -> None:
        for day in pc.unique(table["date"]).to_pylist():
            sink = io.BytesIO()
            pq.write_table(table.filter(pc.equal(table["date"], pa.scalar(day))), sink)
            name = f"{landing.folder(feed, snapshot_id)}date={day.isoformat()}/part-00000.parquet"
            self.bucket.blob(name).upload_from_string(sink.getvalue(), content_type="application/octet-stream")

    def _upload_marker(self, feed: str, snapshot_id: int, table: pa.Table) -> Landed:
        marker = self.bucket.blob(landing.folder(feed, snapshot_id) + MARKER)
        marker.upload_from_string(b"", content_type="application/octet-stream")
        marker.reload()
        return Landed(
            feed=feed,
            snapshot_id=snapshot_id,
            marker_generation=int(marker.generation),
            arrived_at=marker.time_created,
            date_count=pc.count_distinct(table["date"]).as_py(),
            row_count=table.num_rows,
            byte_count=0,  # not counted, because no long test needs it
            is_redelivery=False,
        )
