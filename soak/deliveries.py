"""The producer of the long runs: lands small snapshots with growing ids, and remembers them all.

Files and marker are two steps here, so that many markers can come at once.
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
from soak.snapshots import small_snapshot, today

MARKER = "_SUCCESS"


@dataclass
class Deliveries:
    """`of` are the deliveries of each feed, in the order in which they landed."""

    bucket: Any
    next_id: int = 1
    of: dict[str, list[Landed]] = field(default_factory=dict)

    def land(self, feed: str) -> Landed:
        return self.land_at_once(feed, 1)[0]

    def land_at_once(self, feed: str, count: int) -> list[Landed]:
        """All files first, then all markers side by side."""
        tables = {id_: small_snapshot(id_, today()) for id_ in range(self.next_id, self.next_id + count)}
        self.next_id += count
        for id_, table in tables.items():
            self._place(feed, id_, table)
        with ThreadPoolExecutor(count) as pool:
            landed = list(pool.map(lambda id_: self._mark(feed, id_, tables[id_]), tables))
        self.of.setdefault(feed, []).extend(landed)
        return landed

    def _place(self, feed: str, snapshot_id: int, table: pa.Table) -> None:
        for day in pc.unique(table["date"]).to_pylist():
            sink = io.BytesIO()
            pq.write_table(table.filter(pc.equal(table["date"], pa.scalar(day))), sink)
            name = f"{landing.folder(feed, snapshot_id)}date={day.isoformat()}/part-00000.parquet"
            self.bucket.blob(name).upload_from_string(sink.getvalue(), content_type="application/octet-stream")

    def _mark(self, feed: str, snapshot_id: int, table: pa.Table) -> Landed:
        marker = self.bucket.blob(landing.folder(feed, snapshot_id) + MARKER)
        marker.upload_from_string(b"", content_type="application/octet-stream")
        marker.reload()
        return Landed(
            feed=feed,
            snapshot_id=snapshot_id,
            marker_generation=int(marker.generation),
            arrived_at=marker.time_created,
            dates=pc.count_distinct(table["date"]).as_py(),
            rows=table.num_rows,
            bytes=0,
            is_redelivery=False,
        )
