"""Defines what a commit changes in a table, and stores each version of a table as a file.

The version with the highest number is the current one. The name of a file contains the version's number, commit time
and state, so that no file has to be read when the stand-in starts. A file is written under a temporary name; the
version exists as soon as it is renamed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bigquery_standin.atomic_files import JsonFiles
from bigquery_standin.bigquery_errors import Invalid
from bigquery_standin.storage.model import (
    ChangeLog,
    CloneDefinition,
    Partition,
    StreamedRows,
    TableId,
    TableSettings,
    TableVersion,
)


@dataclass(frozen=True, order=True)
class _Entry:
    number: int
    committed_us: int
    dropped: bool

    @property
    def name(self) -> str:
        return f"{self.number:010d}-{self.committed_us}-{'dropped' if self.dropped else 'live'}"


class TableHistory:
    """The versions of one table. Any thread may read; callers of `append` must hold the table's lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._latest: TableVersion | None = None  # the current version, once it was read
        self._files = JsonFiles(folder, TableVersion)
        self._entries: list[_Entry] = []
        for name in self._files.names():
            number, committed_us, state = name.split("-")
            self._entries.append(_Entry(int(number), int(committed_us), state == "dropped"))
        self._entries.sort()

    def latest(self) -> TableVersion | None:
        """The current version, also if it is a dropped one; None if there is no version."""
        with self._lock:
            return self._load(self._entries[-1]) if self._entries else None

    def at(self, moment_us: int) -> TableVersion | None:
        """The version that was current at the moment; None before `first_readable_us`."""
        with self._lock:
            for entry in reversed(self._readable()):
                if entry.committed_us <= moment_us:
                    return self._load(entry)
        return None

    def first_readable_us(self) -> int | None:
        """The commit time of the earliest version that time travel can read; None if the table does not exist.

        The dataset's time travel window may begin later.
        """
        with self._lock:
            readable = self._readable()
            return readable[0].committed_us if readable else None

    def count_since(self, moment_us: int) -> int:
        """How many versions were committed after the moment."""
        with self._lock:
            return sum(entry.committed_us > moment_us for entry in self._entries)

    def versions_since(self, moment_us: int) -> Iterator[TableVersion]:
        """Versions committed at the moment or later, newest first."""
        with self._lock:
            entries = [entry for entry in reversed(self._entries) if entry.committed_us >= moment_us]
        for entry in entries:
            with self._lock:
                yield self._load(entry)

    def append(self, version: TableVersion) -> None:
        entry = _Entry(version.number, version.committed_us, version.dropped)
        self._files.write(entry.name, version)
        with self._lock:
            self._entries.append(entry)
            self._latest = version

    def remove_before(self, moment_us: int) -> int:
        """Removes the versions that were no longer current at the moment. Returns how many there were."""
        with self._lock:
            first_remaining = 0
            for position in range(1, len(self._entries)):
                if self._entries[position].committed_us <= moment_us:
                    first_remaining = position
            removed, self._entries = self._entries[:first_remaining], self._entries[first_remaining:]
            for entry in removed:
                self._files.remove(entry.name)
        return len(removed)

    def remove_all(self) -> None:
        with self._lock:
            for entry in self._entries:
                self._files.remove(entry.name)
            self._entries.clear()
            self._latest = None
            if self.folder.exists():
                self.folder.rmdir()

    def _readable(self) -> list[_Entry]:
        """The versions that time travel can read: those since the table was last dropped; none if it is dropped now."""
        last_drop = max((i for i, entry in enumerate(self._entries) if entry.dropped), default=-1)
        return self._entries[last_drop + 1 :]

    def _load(self, entry: _Entry) -> TableVersion:
        if self._latest is not None and self._latest.number == entry.number:
            return self._latest
        version = self._files.read(entry.name)
        if self._entries[-1:] == [entry]:
            self._latest = version
        return version


@dataclass(frozen=True)
class Change:
    """The content and settings that a table has after a commit. `commit_us`: its time.

    `recreates`: whether the table gets a new creation time, as by CREATE OR REPLACE; it then loses its streaming buffer
    and change log. `buffer`, `change_log`: the streaming buffer and the change log afterwards, None if they stay as
    they are. `replaces_rows`: whether all earlier rows are gone; the change log is then removed.
    """

    settings: TableSettings
    partitions: Mapping[str, Partition]
    commit_us: int
    clone: CloneDefinition | None = None
    recreates: bool = False
    buffer: tuple[StreamedRows, ...] | None = None
    change_log: ChangeLog | None = None
    replaces_rows: bool = False

    def buffer_after(self, current: TableVersion | None) -> tuple[StreamedRows, ...]:
        """The streaming buffer after the commit."""
        if self.buffer is not None:
            return self.buffer
        return current.buffer if current and not self.recreates else ()

    def changes_only_log(self, current: TableVersion) -> bool:
        """Whether only the change log changes, and so no row of the table."""
        return self.change_log is not None and self.partitions == current.partitions

    def change_log_after(self, table: TableId, current: TableVersion | None) -> ChangeLog | None:
        """The change log after the commit. Raises Invalid if row changes would be lost before they are applied.

        A change that recreates the table may lose them. The log also ends when all rows are replaced or the primary
        key changes.
        """
        if self.change_log is not None or current is None or self.recreates:
            return self.change_log
        if not (self.replaces_rows or self.settings.primary_key != current.settings.primary_key):
            return current.change_log
        if current.pending_changes:
            raise Invalid(
                f"Table {table} is active with change data capture: its rows cannot all be replaced, nor its primary "
                "key be changed, before the streamed changes are applied. Wait for upsert_stream_apply_watermark."
            )
        return None
