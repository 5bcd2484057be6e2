"""Limits how many UPDATE, DELETE and MERGE statements of one table run at a time; further ones wait in a queue.

Sources: "Data manipulation language", UPDATE, DELETE, MERGE DML concurrency; "Quotas and limits".
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bigquery_standin.bigquery_errors import StandInError, StoppedJob
from bigquery_standin.storage.model import TableId

MAXIMUM_RUNNING = 2
MAXIMUM_WAITING = 20
CANCEL_CHECK_INTERVAL_S = 0.1  # cancelling a job does not notify the queue, so it polls


@dataclass
class _Queue:
    """The queue of a table. `waiting`: an object for each waiting statement, the oldest first."""

    running_count: int = 0
    waiting: deque[object] = field(default_factory=deque)


class DmlQueue:
    """The queues of all tables. Threads may share it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queues: dict[TableId, _Queue] = {}

    @contextmanager
    def admit(self, table: TableId, stop: threading.Event) -> Iterator[None]:
        """Run the `with` block as one of the table's running statements, after waiting in the table's queue if need be.

        Raises StandInError at once if the queue is full, and StoppedJob if `stop` is set while waiting.
        """
        with self._changed:
            queue = self._queues.setdefault(table, _Queue())
            self._wait(queue, table, stop)
            queue.running_count += 1
        try:
            yield
        finally:
            with self._changed:
                queue.running_count -= 1
                self._changed.notify_all()

    def _wait(self, queue: _Queue, table: TableId, stop: threading.Event) -> None:
        if queue.running_count < MAXIMUM_RUNNING and not queue.waiting:
            return
        if len(queue.waiting) >= MAXIMUM_WAITING:
            raise StandInError(
                f"Resources exceeded during query execution: Too many DML statements outstanding against table "
                f"{table}, limit is {MAXIMUM_WAITING}.",
                "resourcesExceeded",
            )
        ticket = object()
        queue.waiting.append(ticket)
        try:
            while not (queue.waiting[0] is ticket and queue.running_count < MAXIMUM_RUNNING):
                if stop.is_set():
                    raise StoppedJob()
                self._changed.wait(CANCEL_CHECK_INTERVAL_S)
        finally:
            queue.waiting.remove(ticket)
            self._changed.notify_all()
