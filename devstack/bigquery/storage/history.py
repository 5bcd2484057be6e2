"""The versions of one table on disk: one file each, named by number and commit time, so that a start reads no file.

A version exists from the moment its file is renamed into place. The highest number is the current one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from devstack.bigquery.storage.codec import decode_version, encode_version
from devstack.bigquery.storage.durable import is_aside, write_durably
from devstack.bigquery.storage.model import TableVersion

CACHED_VERSIONS = 8  # a version of 730 partitions takes about a megabyte in memory


@dataclass(frozen=True, order=True)
class _Entry:
    number: int
    committed_us: int
    dropped: bool

    @property
    def file_name(self) -> str:
        return f"{self.number:010d}-{self.committed_us}-{'dropped' if self.dropped else 'live'}.json"


class TableHistory:
    """Callers serialise `append`; reading is safe from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._cache: dict[int, TableVersion] = {}
        self._modified: dict[int, int] = {}  # modified partitions by version number
        self._entries: list[_Entry] = []
        for path in folder.iterdir() if folder.exists() else ():
            if is_aside(path):
                path.unlink()
                continue
            number, committed_us, state = path.stem.split("-")
            self._entries.append(_Entry(int(number), int(committed_us), state == "dropped"))
        self._entries.sort()

    def is_empty(self) -> bool:
        return not self._entries

    def latest(self) -> TableVersion | None:
        with self._lock:
            return self._load(self._entries[-1]) if self._entries else None

    def at(self, moment_us: int) -> TableVersion | None:
        """The version that was current at the moment; None when that was before `first_readable_us`."""
        with self._lock:
            for entry in reversed(self._readable()):
                if entry.committed_us <= moment_us:
                    return self._load(entry)
        return None

    def first_readable_us(self) -> int | None:
        """Since when time travel can read the table; None while it is dropped."""
        with self._lock:
            readable = self._readable()
            return readable[0].committed_us if readable else None

    def number(self, number: int) -> TableVersion | None:
        with self._lock:
            return next((self._load(entry) for entry in self._entries if entry.number == number), None)

    def commits_since(self, moment_us: int) -> list[int]:
        """Commit times after the moment, oldest first; costs no file access."""
        with self._lock:
            return [entry.committed_us for entry in self._entries if entry.committed_us > moment_us]

    def versions_since(self, moment_us: int) -> list[TableVersion]:
        """Newest first."""
        with self._lock:
            return [self._load(entry) for entry in reversed(self._entries) if entry.committed_us > moment_us]

    def modified_partitions_since(self, moment_us: int) -> int:
        """Reads each version's file at most once: every commit asks for it."""
        with self._lock:
            recent = [entry for entry in self._entries if entry.committed_us > moment_us]
            for entry in recent:
                if entry.number not in self._modified:
                    self._load(entry)
            return sum(self._modified[entry.number] for entry in recent)

    def all_versions(self) -> list[TableVersion]:
        return self.versions_since(-1)

    def append(self, version: TableVersion) -> None:
        entry = _Entry(version.number, version.committed_us, version.dropped)
        write_durably(self.folder / entry.file_name, encode_version(version))
        with self._lock:
            self._entries.append(entry)
            self._remember(version)

    def forget_before(self, moment_us: int) -> int:
        """Removes versions that a later one had already followed at the moment; returns how many."""
        with self._lock:
            kept_from = 0
            for position in range(1, len(self._entries)):
                if self._entries[position].committed_us <= moment_us:
                    kept_from = position
            removed, self._entries = self._entries[:kept_from], self._entries[kept_from:]
            for entry in removed:
                self._cache.pop(entry.number, None)
                (self.folder / entry.file_name).unlink()
        return len(removed)

    def forget_all(self) -> None:
        with self._lock:
            for entry in self._entries:
                (self.folder / entry.file_name).unlink()
            self._entries.clear()
            self._cache.clear()
            if self.folder.exists():
                self.folder.rmdir()

    def _readable(self) -> list[_Entry]:
        """A table that was dropped and made anew has no past before that; one that was replaced has."""
        last_drop = max((i for i, entry in enumerate(self._entries) if entry.dropped), default=-1)
        return self._entries[last_drop + 1 :]

    def _load(self, entry: _Entry) -> TableVersion:
        cached = self._cache.get(entry.number)
        if cached is None:
            cached = decode_version((self.folder / entry.file_name).read_bytes())
            self._remember(cached)
        return cached

    def _remember(self, version: TableVersion) -> None:
        self._modified[version.number] = version.modified_partitions
        self._cache[version.number] = version
        while len(self._cache) > CACHED_VERSIONS:
            self._cache.pop(next(iter(self._cache)))
