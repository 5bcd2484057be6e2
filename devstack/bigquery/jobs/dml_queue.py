"""Limits how many UPDATE, DELETE and MERGE statements of one table run at a time; further ones wait in a queue.

Sources: "Using data manipulation language (DML)", UPDATE, DELETE, MERGE DML concurrency; "Quotas and limits".
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from devstack.bigquery.bigquery_errors import ResourcesExceeded, StoppedJob
from devstack.bigquery.clock import Clock
from devstack.bigquery.storage.model import TableId

MAXIMUM_RUNNING = 2
MAXIMUM_WAITING = 20
MAXIMUM_WAIT_US = 7 * 3_600_000_000
CANCEL_CHECK_INTERVAL_S = 0.1  # cancelling a job does not notify the queue


@dataclass
class _TableQueue:
    running: int = 0
    waiting: deque[object] = field(default_factory=deque)


class DmlQueue:
    """The queues of all tables. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._queues: dict[TableId, _TableQueue] = {}

    @contextmanager
    def slot(self, table: TableId, stop: threading.Event) -> Iterator[None]:
        """Run the block as one of the table's running statements, after waiting in the table's queue if need be.

        Raises ResourcesExceeded at once if the queue is full, or after seven hours in it, and StoppedJob if `stop` is
        set while waiting.
        """
        with self._changed:
            queue = self._queues.setdefault(table, _TableQueue())
            self._wait(queue, table, stop)
            queue.running += 1
        try:
            yield
        finally:
            with self._changed:
                queue.running -= 1
                self._changed.notify_all()

    def _wait(self, queue: _TableQueue, table: TableId, stop: threading.Event) -> None:
        if queue.running < MAXIMUM_RUNNING and not queue.waiting:
            return
        if len(queue.waiting) >= MAXIMUM_WAITING:
            raise ResourcesExceeded(
                f"Resources exceeded during query execution: Too many DML statements outstanding against table "
                f"{table}, limit is {MAXIMUM_WAITING}."
            )
        ticket, last_us = object(), self._clock.now_us() + MAXIMUM_WAIT_US
        queue.waiting.append(ticket)
        try:
            while not (queue.waiting[0] is ticket and queue.running < MAXIMUM_RUNNING):
                if stop.is_set():
                    raise StoppedJob("Job execution was cancelled: User requested cancellation")
                if self._clock.now_us() > last_us:
                    raise ResourcesExceeded(f"The DML statement waited for seven hours in the queue of table {table}.")
                self._changed.wait(CANCEL_CHECK_INTERVAL_S)
        finally:
            queue.waiting.remove(ticket)
            self._changed.notify_all()
