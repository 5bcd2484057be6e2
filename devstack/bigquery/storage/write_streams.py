"""Stores the write streams that clients create: what has been appended to each, and how much of it is visible.

A commit of the table makes rows visible. The stream's own record is written after that commit. If the process ends in
between, `record_visible_rows` finds the committed rows in the table's streaming buffer when the stand-in starts again.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from devstack.bigquery.clock import DAY_US
from devstack.bigquery.durable_files import is_temporary_file, write_durably
from devstack.bigquery.storage.model import BufferedRows, Segment, TableId

# Types of streams. Rows become visible when they are appended, when the stream is committed, or when they are flushed.
COMMITTED, PENDING, BUFFERED = "COMMITTED", "PENDING", "BUFFERED"
LIFETIME_US = 7 * DAY_US  # our choice: BigQuery's documentation does not say how long a stream is kept


@dataclass(frozen=True)
class WriteStream:
    """One stream. `segments`: the appended rows of a PENDING or BUFFERED stream, which become visible later, in order.

    `rows`, `visible_rows`: how many rows were appended, and how many of these, from the first on, are visible.
    `table_created_us`: when its table was created; if the table has been replaced since, the stream is gone.
    `committed_us`: when a PENDING stream was committed; else None.
    """

    id: str
    table: TableId
    type: str
    created_us: int
    table_created_us: int
    segments: tuple[Segment, ...] = ()
    rows: int = 0
    visible_rows: int = 0
    finalized: bool = False
    committed_us: int | None = None


class WriteStreamStore:
    """The folder of all streams. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._streams: dict[str, WriteStream] = {}
        for path in folder.iterdir() if folder.exists() else ():
            if is_temporary_file(path):
                path.unlink()
            else:
                stream = _decode(path.read_bytes())
                self._streams[stream.id] = stream

    def create(self, table: TableId, stream_type: str, now_us: int, table_created_us: int) -> WriteStream:
        stream = WriteStream(uuid.uuid4().hex, table, stream_type, now_us, table_created_us)
        self.save(stream)
        return stream

    def find(self, table: TableId, stream_id: str) -> WriteStream | None:
        """The stream of this id, if it belongs to the table."""
        with self._lock:
            stream = self._streams.get(stream_id)
        return stream if stream is not None and stream.table == table else None

    def save(self, stream: WriteStream) -> None:
        write_durably(self._path(stream.id), json.dumps(asdict(stream)).encode())
        with self._lock:
            self._streams[stream.id] = stream

    def all(self) -> list[WriteStream]:
        with self._lock:
            return list(self._streams.values())

    def files(self) -> set[str]:
        """The names of the files with rows of streams."""
        return {segment.file for stream in self.all() for segment in stream.segments}

    def count_created_since(self, project: str, moment_us: int) -> int:
        return sum(stream.table.project == project and stream.created_us > moment_us for stream in self.all())

    def remove_old(self, now_us: int) -> int:
        """Removes the streams that are older than their lifetime. Returns how many there were."""
        old = [stream for stream in self.all() if now_us - stream.created_us > LIFETIME_US]
        for stream in old:
            with self._lock:
                del self._streams[stream.id]
            self._path(stream.id).unlink()
        return len(old)

    def record_visible_rows(self, buffered: Iterable[BufferedRows]) -> None:
        """Records that these committed rows are visible, if the last process ended before it recorded that."""
        for rows in buffered:
            stream = self._streams.get(rows.stream)
            if stream is not None and stream.visible_rows < rows.stream_rows:
                self.save(with_visible(stream, rows.stream_rows, rows.received_us))

    def _path(self, stream_id: str) -> Path:
        return self._folder / f"{stream_id}.json"


def with_visible(stream: WriteStream, rows: int, committed_us: int) -> WriteStream:
    """The stream after the commit that made its first `rows` rows visible.

    Rows of a COMMITTED stream become visible when they are appended, so they are counted as appended here. A PENDING
    stream is committed only once, and its segments are not needed afterwards.
    """
    appended = max(stream.rows, rows)
    if stream.type != PENDING:
        return replace(stream, rows=appended, visible_rows=rows)
    return replace(stream, rows=appended, visible_rows=rows, committed_us=committed_us, segments=())


def _decode(content: bytes) -> WriteStream:
    document = json.loads(content)
    segments = tuple(Segment(**segment) for segment in document["segments"])
    return WriteStream(**{**document, "table": TableId(**document["table"]), "segments": segments})
