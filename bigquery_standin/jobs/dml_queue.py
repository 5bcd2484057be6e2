"""Lets two UPDATE, DELETE and MERGE statements of a table run at a time. Further ones are PENDING.

Source: "Data manipulation language", UPDATE, DELETE, MERGE DML concurrency.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bigquery_standin.bigquery_errors import StoppedJob
from bigquery_standin.jobs.job_store import JobRecord
from bigquery_standin.sql.statements import Mutation, target_of
from bigquery_standin.storage.catalog import CANCEL_CHECK_INTERVAL_S
from bigquery_standin.storage.model import TableId

MAXIMUM_RUNNING = 2


class DmlQueue:
    """The statements of all tables. Threads may share it."""

    def __init__(self) -> None:
        self._free: dict[TableId, threading.Semaphore] = {}

    @contextmanager
    def admit(self, statement: object, record: JobRecord, stop: threading.Event) -> Iterator[None]:
        """Run the `with` block as one of the running statements of the table, if this one has to queue.

        `record`: that of the statement's job. Raises StoppedJob if `stop` is set before.
        """
        if not isinstance(statement, Mutation):
            yield
            return
        free = self._free.setdefault(record.table(target_of(statement)), threading.Semaphore(MAXIMUM_RUNNING))
        while not free.acquire(timeout=CANCEL_CHECK_INTERVAL_S):
            if stop.is_set():
                raise StoppedJob()
        try:
            yield
        finally:
            free.release()
