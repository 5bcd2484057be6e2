"""The folder of immutable Parquet segments that table versions point to.

A segment that is being written is held by a `Batch` until the commit that names it; one that is being read is
pinned. Whatever neither a version, a batch nor a pin names may be removed.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from devstack.bigquery.storage.durable import sync_folder
from devstack.bigquery.storage.logical_bytes import column_bytes
from devstack.bigquery.storage.model import Segment

ROW_GROUP_ROWS = 122_880  # DuckDB's own row group size: it prunes and parallelises by row group


class SegmentStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, segment: Segment) -> Path:
        return self._folder / segment.file

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        batch = Batch(self)
        try:
            yield batch
        finally:
            self.release(batch.files)

    def hold(self, files: Iterable[str]) -> None:
        with self._lock:
            self._held.update(files)

    def release(self, files: Iterable[str]) -> None:
        with self._lock:
            self._held.subtract(files)
            self._held = +self._held

    def files(self) -> set[str]:
        return {entry.name for entry in os.scandir(self._folder)}

    def held(self) -> set[str]:
        with self._lock:
            return set(self._held)

    def remove(self, files: Iterable[str]) -> int:
        count = 0
        for file in files:
            (self._folder / file).unlink()
            count += 1
        return count

    def sync(self) -> None:
        """Makes the names of new segments durable; their contents already are."""
        sync_folder(self._folder)

    def new_path(self, file: str) -> Path:
        return self._folder / file


class Batch:
    """New segments of one writer. Threads may share it."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store
        self.files: list[str] = []

    def write(self, rows: pa.Table) -> Segment:
        path = self._reserve()
        with path.open("wb") as stream:
            pq.write_table(
                rows, stream, compression="zstd", compression_level=1, row_group_size=ROW_GROUP_ROWS,
                write_page_index=False,
            )  # fmt: skip
            stream.flush()
            os.fsync(stream.fileno())
        return Segment(path.name, rows.num_rows, column_bytes(rows))

    def adopt(self, rows: pa.Table, content: bytes) -> Segment:
        """Stores a Parquet file as it is; `rows` are its decoded rows."""
        path = self._reserve()
        with path.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        return Segment(path.name, rows.num_rows, column_bytes(rows))

    def _reserve(self) -> Path:
        file = f"{uuid.uuid4().hex}.parquet"
        self._store.hold([file])
        self.files.append(file)
        return self._store.new_path(file)
