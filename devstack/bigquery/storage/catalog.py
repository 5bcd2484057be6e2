"""All tables: the one place where a table's version is read or replaced.

Writers prepare segments first and then commit under the table's lock, which is held for the metadata write only;
readers take the current version and never wait.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devstack.bigquery.clock import Clock
from devstack.bigquery.errors import Invalid, NotFound
from devstack.bigquery.storage.datasets import DatasetStore
from devstack.bigquery.storage.expiration import without_expired
from devstack.bigquery.storage.history import TableHistory
from devstack.bigquery.storage.model import (
    CloneDefinition,
    DatasetId,
    JobMark,
    Partition,
    TableId,
    TableSettings,
    TableVersion,
)
from devstack.bigquery.storage.quotas import QuotaLimits, check_partition_modifications, check_update_rate
from devstack.bigquery.storage.refusals import ResourceInUse
from devstack.bigquery.storage.segments import SegmentStore

TABLE_NAME = re.compile(r"[\w-]{1,200}")
HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class Change:
    """What a commit makes of a table. `recreates` gives it a new creation time, as CREATE OR REPLACE does."""

    kind: str
    settings: TableSettings
    partitions: Mapping[str, Partition]
    clone: CloneDefinition | None = None
    recreates: bool = False
    modified_partitions: int = 0


BuildChange = Callable[[TableVersion | None, int], Change]


class Catalog:
    def __init__(self, folder: Path, clock: Clock, limits: QuotaLimits | None = None) -> None:
        self.clock = clock
        self.limits = limits or QuotaLimits()
        self.datasets = DatasetStore(folder / "datasets", clock)
        self.segments = SegmentStore(folder / "segments")
        self._folder = folder / "tables"
        self._histories_lock = threading.Lock()
        self._histories: dict[TableId, TableHistory] = {}
        self._locks: dict[TableId, threading.RLock] = {}
        self.pin_lock = threading.Lock()  # a version cannot be collected between its reading and its pinning
        for path in self._folder.glob("*/*/*") if self._folder.exists() else ():
            table_id = TableId(*path.relative_to(self._folder).parts)
            self._histories[table_id] = TableHistory(path)
        self._drop_orphans()

    # -- reading

    def find(self, table_id: TableId) -> TableVersion | None:
        """The table as it is now; None when it does not exist."""
        history = self._histories.get(table_id)
        latest = history.latest() if history else None
        if latest is None or self.datasets.find(table_id.dataset_id) is None:
            return None
        version = without_expired(latest, self.clock.now_us())
        return None if version.dropped else version

    def get(self, table_id: TableId) -> TableVersion:
        version = self.find(table_id)
        if version is None:
            self.datasets.get(table_id.dataset_id)
            raise NotFound(f"Not found: Table {table_id}")
        return version

    def at(self, table_id: TableId, moment_us: int) -> TableVersion:
        """Time travel within the dataset's window; a dropped table cannot be read at any time."""
        self.get(table_id)
        now_us = self.clock.now_us()
        hours = self.datasets.get(table_id.dataset_id).max_time_travel_hours
        history = self.history(table_id)
        if moment_us > now_us:
            raise Invalid(
                f"Invalid snapshot time {moment_us // 1000} for table {table_id}@{moment_us // 1000}. "
                f"Cannot read after {now_us // 1000}."
            )
        first_us = max(now_us - hours * HOUR_US, history.first_readable_us() or 0)
        version = history.at(moment_us)
        if version is None or moment_us < first_us:
            raise Invalid(
                f"Invalid snapshot time {moment_us // 1000} for table {table_id}@{moment_us // 1000}. "
                f"Cannot read before {first_us // 1000}."
            )
        return without_expired(version, moment_us)

    @contextmanager
    def pinned(self, table_id: TableId, moment_us: int | None = None) -> Iterator[TableVersion]:
        """The version's segments stay on disk until the block ends, whatever happens to the table."""
        with self.pin_lock:
            version = self.get(table_id) if moment_us is None else self.at(table_id, moment_us)
            files = [segment.file for segment in version.segments()]
            self.segments.hold(files)
        try:
            yield version
        finally:
            self.segments.release(files)

    def history(self, table_id: TableId) -> TableHistory:
        with self._histories_lock:
            found = self._histories.get(table_id)
            if found is None:
                if not TABLE_NAME.fullmatch(table_id.table):
                    raise Invalid(
                        f'Invalid table ID "{table_id.table}". Table IDs must be letters, digits, underscores or '
                        "dashes and at most 200 characters long here."
                    )
                folder = self._folder / table_id.project / table_id.dataset / table_id.table
                found = self._histories[table_id] = TableHistory(folder)
            return found

    def histories(self) -> list[tuple[TableId, TableHistory]]:
        with self._histories_lock:
            return sorted(self._histories.items(), key=lambda item: item[0])

    def list_tables(self, dataset_id: DatasetId) -> list[tuple[TableId, TableVersion]]:
        found = []
        for table_id, _ in self.histories():
            version = self.find(table_id) if table_id.dataset_id == dataset_id else None
            if version is not None:
                found.append((table_id, version))
        return found

    # -- writing

    def commit(self, table_id: TableId, build: BuildChange, job: JobMark | None = None) -> TableVersion:
        """`build` gets the current version and the commit time under the table's lock, and may refuse by raising."""
        with self._lock(table_id):
            history = self.history(table_id)
            dataset = self.datasets.get(table_id.dataset_id)
            current, latest = self.find(table_id), history.latest()
            now_us = self.clock.now_us()
            commit_us = max(now_us, latest.committed_us + 1) if latest else now_us
            change = build(current, commit_us)
            if not dataset.hidden:
                check_update_rate(self.limits, table_id, history, change.settings.partition_column is not None, now_us)
                if change.settings.partition_column is not None:
                    check_partition_modifications(self.limits, table_id, history, change.modified_partitions, commit_us)
            version = TableVersion(
                number=latest.number + 1 if latest else 1,
                committed_us=commit_us,
                change=change.kind,
                created_us=commit_us if current is None or change.recreates else current.created_us,
                modified_us=commit_us,
                settings=change.settings,
                partitions=change.partitions,
                clone=change.clone,
                job=job,
                modified_partitions=change.modified_partitions,
            )
            self.segments.sync()
            history.append(without_expired(version, commit_us))
            return version

    def drop(self, table_id: TableId, job: JobMark | None = None, kind: str = "drop") -> TableVersion:
        """Returns what was dropped. The versions stay readable by time travel."""
        with self._lock(table_id):
            current = self.get(table_id)
            self._append_system(table_id, current, kind, dropped=True, job=job)
            return current

    def drop_dataset(self, dataset_id: DatasetId, delete_contents: bool) -> None:
        self.datasets.get(dataset_id)
        tables = self.list_tables(dataset_id)
        if tables and not delete_contents:
            raise ResourceInUse(
                f"Dataset {dataset_id} is still in use: delete its tables first or ask to delete contents."
            )
        # The dataset goes first: a writer that commits later finds no dataset, one that was earlier is dropped below.
        self.datasets.remove(dataset_id)
        self._drop_orphans()

    def commit_expired(self, table_id: TableId) -> bool:
        """Makes durable what readers already see: expired partitions, or the whole expired table, are gone."""
        with self._lock(table_id):
            latest = self.history(table_id).latest()
            if latest is None or latest.dropped:
                return False
            version = without_expired(latest, self.clock.now_us())
            if version is latest:
                return False
            self._append_system(table_id, version, "expire", dropped=version.dropped)
            return True

    def forget(self, table_id: TableId) -> None:
        """Removes a dropped table that time travel no longer reaches."""
        with self._lock(table_id), self._histories_lock:
            history = self._histories[table_id]
            latest = history.latest()
            if latest is None or latest.dropped:
                history.forget_all()
                del self._histories[table_id]

    def _lock(self, table_id: TableId) -> threading.RLock:
        with self._histories_lock:
            return self._locks.setdefault(table_id, threading.RLock())

    def _append_system(
        self, table_id: TableId, version: TableVersion, kind: str, dropped: bool, job: JobMark | None = None
    ) -> None:
        history = self.history(table_id)
        latest = history.latest()
        if latest is None:
            raise NotFound(f"Not found: Table {table_id}")
        history.append(
            TableVersion(
                number=latest.number + 1,
                committed_us=max(self.clock.now_us(), latest.committed_us + 1),
                change=kind,
                created_us=version.created_us,
                modified_us=version.modified_us,
                settings=version.settings,
                partitions={} if dropped else version.partitions,
                clone=version.clone,
                job=job,
                dropped=dropped,
            )
        )

    def _drop_orphans(self) -> None:
        """Drops tables whose dataset is gone: a dataset's removal may have been cut short by a kill."""
        for table_id, history in self.histories():
            if self.datasets.find(table_id.dataset_id) is None:
                with self._lock(table_id):
                    latest = history.latest()
                    if latest is not None and not latest.dropped:
                        self._append_system(table_id, latest, "drop", dropped=True)
