"""Commits expirations, flushes streaming buffers, and removes old versions and unreferenced segments.

A background thread does this every second, or less often if there are so many tables that it would take more than a
tenth of the time. A segment is a Parquet file with rows.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import TIME_TRAVEL_US
from bigquery_standin.storage.streamed_rows import flush_buffers

SWEEP_INTERVAL_S = 1.0
LOG = logging.getLogger(__name__)


def remove_old_versions(catalog: Catalog) -> int:
    """Removes the versions that time travel can no longer read. Hidden datasets (of query results) have no time travel.

    Returns how many versions and tables were removed.
    """
    now_us = catalog.clock.now_us()
    removed = 0
    for table_id, history in catalog.histories():
        dataset = catalog.datasets.find(table_id.dataset_id)
        limit_us = now_us if dataset and dataset.hidden else now_us - TIME_TRAVEL_US
        with catalog.pin_lock:
            removed += history.remove_before(limit_us)
        latest = history.latest()
        if latest is None or (latest.dropped and latest.committed_us <= limit_us):
            catalog.remove_history(table_id)
            removed += 1
    return removed


def remove_unreferenced_segments(catalog: Catalog) -> None:
    """Removes segments that no version references and that are not pinned.

    Files and pins are read before versions, because a segment that a writer has just committed is no longer pinned but
    already belongs to a version. Only sweeps remove versions, and no two sweeps run at a time, so a version that a
    reader pins meanwhile still exists.
    """
    with catalog.pin_lock:
        files = catalog.segments.files()
        pinned = catalog.segments.pinned()
    referenced = {file for _, history in catalog.histories() for file in history.segment_files()}
    catalog.segments.remove(files - pinned - referenced)


class GarbageCollector:
    """The background thread.

    Its first sweep removes unreferenced segments in any case; a later one only if it removes a version.
    """

    def __init__(self, catalog: Catalog, task: Callable[[], object]) -> None:
        """`task`: each sweep calls it first."""
        self._catalog = catalog
        self._task = task
        self._wake = threading.Event()
        self._stopping = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def sweep(self, removes_segments_always: bool = False) -> None:
        """Runs once.

        `removes_segments_always`: removes unreferenced segments even if no version was removed.
        """
        with self._lock:
            self._task()
            flush_buffers(self._catalog)
            for table_id, _ in self._catalog.histories():
                self._catalog.commit_expired(table_id)
            removed = remove_old_versions(self._catalog)
            if removed or removes_segments_always:
                remove_unreferenced_segments(self._catalog)

    def _run(self) -> None:
        first = True
        while not self._stopping:
            started = time.monotonic()
            try:
                self.sweep(removes_segments_always=first)
                first = False
            except Exception:
                LOG.exception("Garbage collection failed; it runs again in [%s] s.", SWEEP_INTERVAL_S)
            self._wake.wait(max(SWEEP_INTERVAL_S, 9 * (time.monotonic() - started)))
            self._wake.clear()
