"""Implements write streams that clients create: appends with offsets, and the calls that make their rows visible.

Sources: "Overview of the Storage Write API (gRPC)", application-created streams; "Batch load data using the Storage
Write API"; RPC reference, BigQueryWrite and StorageError.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import grpc
import pyarrow as pa
import pyarrow.parquet as pq

from devstack.bigquery.clock import HOUR_US
from devstack.bigquery.storage.arrow_schema import conform
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import BufferedRows, TableId, TableSettings, TableVersion
from devstack.bigquery.storage.segment_store import SegmentBatch
from devstack.bigquery.storage.streaming_buffer import stream_rows
from devstack.bigquery.storage.write_streams import BUFFERED, COMMITTED, PENDING, WriteStream, with_visible
from devstack.bigquery.write_api.storage_errors import Code, WriteApiError, invalid_argument
from devstack.bigquery.write_api.stream_names import StreamName, table_name

MAXIMUM_CREATED_PER_HOUR = 10_000  # streams of one project
MAXIMUM_COMMITTED_AT_ONCE = 10_000  # streams of one BatchCommitWriteStreams
COMMIT_WITHIN_US = 24 * HOUR_US  # how long after its creation a PENDING stream can be committed

# Reads the rows of a request, given the table's settings and the current time in microseconds.
ReadRows = Callable[[TableSettings, int], pa.Table]


class CreatedStreams:
    """The streams that clients have created. Threads may share it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._store = catalog.write_streams
        self._locks_lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._connections: dict[str, object] = {}

    def create(self, table: TableId, stream_type: str) -> WriteStream:
        """`stream_type`: COMMITTED, PENDING or BUFFERED (`storage/write_streams.py`).

        Raises NotFound if the table does not exist, and WriteApiError if the project created too many streams.
        """
        version, now_us = self._catalog.get(table), self._catalog.clock.now_us()
        if self._store.count_created_since(table.project, now_us - HOUR_US) >= MAXIMUM_CREATED_PER_HOUR:
            raise WriteApiError(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"Exceeded quota for CreateWriteStream of project {table.project}: allowed "
                f"[{MAXIMUM_CREATED_PER_HOUR}] streams an hour. Use the default stream, or fewer streams.",
            )
        return self._store.create(table, stream_type, now_us, version.table_created_us)

    def get(self, name: StreamName) -> WriteStream:
        """Raises NotFound if the table does not exist, and WriteApiError if the stream does not exist."""
        version, stream = self._catalog.get(name.table), self._store.find(name.table, name.id)
        if stream is None or stream.table_created_us != version.table_created_us:
            raise WriteApiError(
                grpc.StatusCode.NOT_FOUND,
                f"Requested entity was not found. Entity: {name}: it was never created, or its table was replaced.",
                Code.STREAM_NOT_FOUND,
                str(name),
            )
        return stream

    def connect(self, name: StreamName, connection: object) -> None:
        """Makes this the stream's only connection: an earlier one can append no more. Raises as `get` does."""
        self.get(name)
        self._connections[name.id] = connection

    def append(self, name: StreamName, connection: object, offset: int | None, read: ReadRows) -> int:
        """Appends the rows that `read` returns. Returns the offset of the first one. Nothing changes if `read` raises.

        `offset`: the number of the first row in the stream; None for the end of the stream. Raises as `get` does, and
        WriteApiError if the stream takes no rows from this connection, or not at this offset.
        """
        with self._lock(name):
            stream = self.get(name)
            if self._connections.get(name.id) is not connection:
                raise WriteApiError(
                    grpc.StatusCode.ABORTED, f"Another connection writes to {name} now: a created stream has only one."
                )
            if stream.finalized:
                raise invalid_argument(f"Stream has been finalized: {name}", Code.STREAM_FINALIZED, str(name))
            _check_offset(name, stream, offset)
            if stream.type == COMMITTED:
                self._append_visible(stream, read)
            else:
                version = self._catalog.get(name.table)
                with self._catalog.segments.batch() as batch:
                    segment = batch.write(read(version.settings, self._catalog.clock.now_us()))
                    self._catalog.segments.sync()
                    rows = stream.rows + segment.rows
                    self._store.save(replace(stream, segments=(*stream.segments, segment), rows=rows))
            return stream.rows

    def _append_visible(self, stream: WriteStream, read: ReadRows) -> None:
        end = stream.rows

        def make(version: TableVersion, commit_us: int, batch: SegmentBatch) -> list[BufferedRows]:
            nonlocal end
            segment = batch.write(read(version.settings, commit_us))
            end = stream.rows + segment.rows
            return [BufferedRows(segment, commit_us, stream=stream.id, stream_rows=end)]

        version = stream_rows(self._catalog, stream.table, make)
        self._store.save(with_visible(stream, end, version.committed_us))

    def finalize(self, name: StreamName) -> int:
        """Ends the stream for appends. Returns how many rows it has. Raises as `get` does."""
        with self._lock(name):
            stream = self.get(name)
            self._store.save(replace(stream, finalized=True))
            return stream.rows

    def flush(self, name: StreamName, offset: int) -> int:
        """Makes the rows up to `offset`, inclusive, visible. Returns the offset of the last visible row.

        Raises as `get` does, and WriteApiError for a stream that is not BUFFERED and for an offset beyond its rows.
        """
        with self._lock(name):
            stream = self.get(name)
            if stream.type != BUFFERED:
                raise invalid_argument(
                    f"Stream {name} is [{stream.type}]: only [{BUFFERED}] streams are flushed.",
                    Code.INVALID_STREAM_TYPE,
                    str(name),
                )
            if offset >= stream.rows:
                raise _out_of_range(name, stream, offset)
            if offset >= stream.visible_rows:
                self._make_visible([(stream, offset + 1)])
            return max(offset, stream.visible_rows - 1)

    def batch_commit(self, table: TableId, names: Sequence[StreamName]) -> tuple[int, list[WriteApiError]]:
        """Makes the rows of all streams visible at once, unless one cannot be committed.

        Returns the commit time in microseconds and no errors, or 0 and the errors of streams that prevent it. Raises
        WriteApiError for a wrong number of streams or for one of another table, NotFound if the table does not exist.
        """
        if not 0 < len(set(names)) <= MAXIMUM_COMMITTED_AT_ONCE:
            raise invalid_argument(
                f"[{len(set(names))}] streams to commit, allowed are 1 to {MAXIMUM_COMMITTED_AT_ONCE}."
            )
        for name in names:
            if name.table != table:
                raise invalid_argument(f"Stream {name} is not of the parent table {table_name(table)}.")
        with ExitStack() as locks:
            for name in sorted(set(names), key=str):
                locks.enter_context(self._lock(name))
            streams, errors = [], []
            for name in dict.fromkeys(names):
                try:
                    streams.append(self._committable_stream(name))
                except WriteApiError as error:
                    errors.append(error)
            if errors:
                return 0, errors
            return self._make_visible([(stream, stream.rows) for stream in streams]), []

    def _committable_stream(self, name: StreamName) -> WriteStream:
        stream = None if name.is_default else self.get(name)
        if stream is None or stream.type != PENDING:
            stream_type = stream.type if stream else COMMITTED
            text = f"Stream {name} is [{stream_type}]: only [{PENDING}] streams are committed."
            raise invalid_argument(text, Code.INVALID_STREAM_TYPE, str(name))
        if stream.committed_us is not None:
            raise invalid_argument(f"Stream {name} is already committed.", Code.STREAM_ALREADY_COMMITTED, str(name))
        if not stream.finalized:
            raise invalid_argument(
                f"Stream {name} is not finalized: call FinalizeWriteStream first.", Code.INVALID_STREAM_STATE, str(name)
            )
        if self._catalog.clock.now_us() - stream.created_us > COMMIT_WITHIN_US:
            raise invalid_argument(
                f"Stream {name} was created more than 24 hours ago and is gone: write its rows to another one.",
                Code.INVALID_STREAM_STATE,
                str(name),
            )
        return stream

    def _make_visible(self, ends: Sequence[tuple[WriteStream, int]]) -> int:
        """Copies rows of streams to their table's streaming buffer in one commit. Returns its time in microseconds.

        `ends`: the streams, each with the number of its rows, from the first on, that are visible afterwards.
        """

        def make(version: TableVersion, commit_us: int, batch: SegmentBatch) -> Iterator[BufferedRows]:
            for stream, end in ends:
                if end > stream.visible_rows:
                    rows = self._read(stream).slice(stream.visible_rows, end - stream.visible_rows)
                    segment = batch.write(conform(rows, version.settings.schema))
                    yield BufferedRows(segment, commit_us, stream=stream.id, stream_rows=end)

        version = stream_rows(self._catalog, ends[0][0].table, lambda *arguments: list(make(*arguments)))
        for stream, end in ends:
            self._store.save(with_visible(stream, end, version.committed_us))
        return version.committed_us

    def _read(self, stream: WriteStream) -> pa.Table:
        paths = [self._catalog.segments.path(segment) for segment in stream.segments]
        return pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths], promote_options="default")

    @contextmanager
    def _lock(self, name: StreamName) -> Iterator[None]:
        with self._locks_lock:
            lock = self._locks.setdefault(name.id, threading.Lock())
        with lock:
            yield


def _check_offset(name: StreamName, stream: WriteStream, offset: int | None) -> None:
    if offset is None or offset == stream.rows:
        return
    if offset > stream.rows:
        raise _out_of_range(name, stream, offset)
    raise WriteApiError(
        grpc.StatusCode.ALREADY_EXISTS,
        f"The offset is within stream, expected offset {stream.rows}, received {offset}. Entity: {name}",
        Code.OFFSET_ALREADY_EXISTS,
        str(name),
    )


def _out_of_range(name: StreamName, stream: WriteStream, offset: int) -> WriteApiError:
    return WriteApiError(
        grpc.StatusCode.OUT_OF_RANGE,
        f"The offset is beyond stream, expected offset {stream.rows}, received {offset}. Entity: {name}",
        Code.OFFSET_OUT_OF_RANGE,
        str(name),
    )
