"""Keeps all tables: readers find a table's current version in the catalog, and writers commit new versions to it.

One writer at a time changes a table: it holds the table's lock from what it reads of the table to its commit. Readers
use the version that is current and never wait for a writer.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bigquery_standin.bigquery_errors import Invalid, NotFound, StandInError
from bigquery_standin.clock import Clock
from bigquery_standin.storage.dataset_store import DatasetStore
from bigquery_standin.storage.model import (
    TIME_TRAVEL_US,
    CommitInfo,
    DatasetId,
    TableId,
    TableVersion,
)
from bigquery_standin.storage.partitions import with_dataset_defaults, without_expired
from bigquery_standin.storage.segment_store import SegmentStore
from bigquery_standin.storage.table_history import Change, TableHistory

# Cancelling a job does not end its waiting, so whoever waits polls.
CANCEL_CHECK_INTERVAL_S = 0.1

TABLE_NAME = re.compile(r"[\w-]{1,200}")


class Catalog:
    """All tables and their datasets. Threads may share it."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.clock = clock
        self.datasets = DatasetStore(folder / "datasets", clock)
        self.segments = SegmentStore(folder / "segments")
        self._folder = folder / "tables"
        self._histories_lock = threading.Lock()
        self._histories: dict[TableId, TableHistory] = {}
        self._locks: dict[TableId, threading.RLock] = {}
        for path in self._folder.glob("*/*/*") if self._folder.exists() else ():
            table_id = TableId(*path.relative_to(self._folder).parts)
            self._histories[table_id] = TableHistory(path)
        self._drop_tables_without_dataset()

    def find(self, table_id: TableId) -> TableVersion | None:
        """The table as it is now, None if it does not exist."""
        history = self._histories.get(table_id)
        latest = history.latest() if history else None
        if latest is None or self.datasets.find(table_id.dataset_id) is None:
            return None
        version = without_expired(latest, self.clock.now_us())
        return None if version.dropped else version

    def get(self, table_id: TableId) -> TableVersion:
        """The table as it is now. Raises NotFound if it or its dataset does not exist."""
        version = self.find(table_id)
        if version is None:
            self.datasets.get(table_id.dataset_id)
            raise NotFound(f"Not found: Table {table_id}")
        return version

    def at(self, table_id: TableId, moment_us: int) -> TableVersion:
        """The version that was current at the moment, within the time travel window.

        Raises NotFound for a table that does not exist now, and Invalid for a moment in the future, before the window
        or before the table was last created.
        """
        self.get(table_id)
        now_us = self.clock.now_us()
        history = self.history(table_id)
        if moment_us > now_us:
            raise Invalid(
                f"Invalid snapshot time {moment_us // 1000} for table {table_id}@{moment_us // 1000}. "
                f"Cannot read after {now_us // 1000}."
            )
        first_us = max(now_us - TIME_TRAVEL_US, history.first_readable_us() or 0)
        version = history.at(moment_us)
        if version is None or moment_us < first_us:
            raise Invalid(
                f"Invalid snapshot time {moment_us // 1000} for table {table_id}@{moment_us // 1000}. "
                f"Cannot read before {first_us // 1000}."
            )
        return without_expired(version, moment_us)

    def read(self, table_id: TableId, moment_us: int | None = None) -> TableVersion:
        """The current version, or the one that was current at the moment."""
        return self.get(table_id) if moment_us is None else self.at(table_id, moment_us)

    def history(self, table_id: TableId) -> TableHistory:
        """The table's history, empty if the table has never existed. Raises Invalid for an invalid table name."""
        with self._histories_lock:
            history = self._histories.get(table_id)
            if history is None:
                if not TABLE_NAME.fullmatch(table_id.table):
                    raise Invalid(
                        f'Invalid table ID "{table_id.table}". Table IDs must be letters, digits, underscores or '
                        "dashes and at most 200 characters long here."
                    )
                folder = self._folder / table_id.project / table_id.dataset / table_id.table
                history = self._histories[table_id] = TableHistory(folder)
            return history

    def histories(self) -> list[tuple[TableId, TableHistory]]:
        with self._histories_lock:
            return list(self._histories.items())

    def list_tables(self, dataset_id: DatasetId) -> list[tuple[TableId, TableVersion]]:
        """The existing tables of a dataset, as they are now, sorted by name."""
        ids = sorted(table_id for table_id, _ in self.histories() if table_id.dataset_id == dataset_id)
        return [(table_id, version) for table_id in ids if (version := self.find(table_id)) is not None]

    @contextmanager
    def writing(
        self, table_id: TableId, check_cancelled: Callable[[], None] = lambda: None
    ) -> Iterator[TableVersion | None]:
        """Yields the table as it is now, None if it does not exist. Nobody else changes it until the block ends.

        `check_cancelled`: called while another one changes the table; raises an error to wait no longer.
        """
        with self._histories_lock:
            lock = self._locks.setdefault(table_id, threading.RLock())
        while not lock.acquire(timeout=CANCEL_CHECK_INTERVAL_S):
            check_cancelled()
        try:
            latest = self._histories[table_id].latest() if table_id in self._histories else None
            if latest is not None and not latest.dropped and without_expired(latest, self.clock.now_us()).dropped:
                # Record the expired table's drop, so that time travel does not read it as a new table.
                self._append_drop(table_id, latest)
            yield self.find(table_id)
        finally:
            lock.release()

    def next_us(self, table_id: TableId) -> int:
        """The time of the table's next commit, which is later than that of the last one."""
        now_us, latest = self.clock.now_us(), self.history(table_id).latest()
        return max(now_us, latest.committed_us + 1) if latest else now_us

    def commit(self, table_id: TableId, change: Change, job: CommitInfo | None = None) -> TableVersion:
        """Commits a change, in a block of `writing`.

        `job`: the job that makes the change; the version records it. Raises NotFound if there is no such dataset,
        Invalid for an invalid table name and for a change that would lose streamed row changes.
        """
        history = self.history(table_id)
        dataset = self.datasets.get(table_id.dataset_id)
        current, latest, commit_us = self.find(table_id), history.latest(), change.commit_us
        is_new = current is None or change.recreates
        version = TableVersion(
            number=latest.number + 1 if latest else 1,
            committed_us=commit_us,
            table_created_us=commit_us if is_new or current is None else current.table_created_us,
            modified_us=current.modified_us if current and change.changes_only_log(current) else commit_us,
            settings=with_dataset_defaults(change.settings, dataset, commit_us) if is_new else change.settings,
            partitions=change.partitions,
            clone=change.clone,
            job=job,
            had_row_policies=bool(change.settings.row_policies) or (latest is not None and latest.had_row_policies),
            buffer=change.buffer_after(current),
            change_log=change.change_log_after(table_id, current),
        )
        version = without_expired(version, commit_us)
        history.append(version)
        return version

    def drop(self, table_id: TableId, job: CommitInfo | None = None) -> None:
        """Raises NotFound if the table does not exist."""
        with self.writing(table_id):
            self._append_drop(table_id, self.get(table_id), job)

    def drop_dataset(self, dataset_id: DatasetId, delete_contents: bool) -> None:
        """Drops the dataset with its tables and routines.

        Raises NotFound if it does not exist, and ResourceInUse if it has tables or routines, unless `delete_contents`.
        """
        dataset = self.datasets.get(dataset_id)
        if not delete_contents and (self.list_tables(dataset_id) or dataset.procedures):
            raise StandInError(
                f"Dataset {dataset_id} is still in use: delete its tables and routines first, or its contents too.",
                "resourceInUse",
            )
        # The dataset is removed first, so that no commit can add a table after the tables are dropped.
        self.datasets.remove(dataset_id)
        self._drop_tables_without_dataset()

    def forget(self, table_id: TableId) -> None:
        """Removes the history of a table that is gone."""
        self._histories.pop(table_id).remove_all()

    def _append_drop(self, table_id: TableId, version: TableVersion, job: CommitInfo | None = None) -> None:
        """Commits that the table, whose last version this is, was dropped."""
        number, committed_us = version.number + 1, self.next_us(table_id)
        self.history(table_id).append(
            replace(
                version, number=number, committed_us=committed_us, partitions={}, job=job, dropped=True,
                buffer=(), change_log=None,
            )
        )  # fmt: skip

    def _drop_tables_without_dataset(self) -> None:
        """Drops tables whose dataset does not exist.

        Such tables exist while a dataset is being dropped, and later if the process was killed meanwhile.
        """
        for table_id, history in self.histories():
            if self.datasets.find(table_id.dataset_id) is None:
                with self.writing(table_id):
                    latest = history.latest()
                    if latest is not None and not latest.dropped:
                        self._append_drop(table_id, latest)
