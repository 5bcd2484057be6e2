"""Limits how many DML statements of one table run at a time; further ones wait in a queue.

UPDATE, DELETE and MERGE have one queue of a table, INSERT another, which begins after a number of INSERTs in a day.

Sources: "Data manipulation language", INSERT DML concurrency and UPDATE, DELETE, MERGE DML concurrency; "Quotas and
limits".
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from devstack.bigquery.bigquery_errors import ResourcesExceeded, StoppedJob
from devstack.bigquery.clock import Clock
from devstack.bigquery.storage.model import TableId

MAXIMUM_RUNNING = 2
MAXIMUM_WAITING = 20
INSERTS_AT_ONCE_PER_DAY = 1_500  # so many in 24 hours run without any limit
MAXIMUM_RUNNING_INSERTS = 10
MAXIMUM_WAITING_INSERTS = 100
MAXIMUM_WAIT_US = 7 * 3_600_000_000
CANCEL_CHECK_INTERVAL_S = 0.1  # cancelling a job does not notify the queue


@dataclass
class _Line:
    """The statements of one kind and table. `running` also counts those that were let in without a limit."""

    maximum_running: int
    maximum_waiting: int
    running: int = 0
    waiting: deque[object] = field(default_factory=deque)


class DmlQueue:
    """The queues of all tables. Threads may share it. `inserts_of_day`: a table's INSERTs in the last 24 hours."""

    def __init__(self, clock: Clock, inserts_of_day: Callable[[TableId], int] = lambda table: 0) -> None:
        self._clock = clock
        self._inserts_of_day = inserts_of_day
        self._changed = threading.Condition()
        self._queues: dict[TableId, _Line] = {}
        self._inserts: dict[TableId, _Line] = {}

    @contextmanager
    def slot(self, table: TableId, stop: threading.Event) -> Iterator[None]:
        """Run the block as one of the table's running statements, after waiting in the table's queue if need be.

        Raises ResourcesExceeded at once if the queue is full, or after seven hours in it, and StoppedJob if `stop` is
        set while waiting.
        """
        with self._changed:
            line = self._queues.setdefault(table, _Line(MAXIMUM_RUNNING, MAXIMUM_WAITING))
        with self._place(line, table, stop, is_limited=True):
            yield

    @contextmanager
    def insert_slot(self, table: TableId, stop: threading.Event) -> Iterator[None]:
        """As `slot`, for an INSERT: it waits only after the first 1,500 INSERTs of a table in 24 hours."""
        with self._changed:
            line = self._inserts.setdefault(table, _Line(MAXIMUM_RUNNING_INSERTS, MAXIMUM_WAITING_INSERTS))
            is_limited = self._inserts_of_day(table) + line.running >= INSERTS_AT_ONCE_PER_DAY
        with self._place(line, table, stop, is_limited=is_limited):
            yield

    @contextmanager
    def _place(self, line: _Line, table: TableId, stop: threading.Event, *, is_limited: bool) -> Iterator[None]:
        with self._changed:
            if is_limited:
                self._wait(line, table, stop)
            line.running += 1
        try:
            yield
        finally:
            with self._changed:
                line.running -= 1
                self._changed.notify_all()

    def _wait(self, line: _Line, table: TableId, stop: threading.Event) -> None:
        if line.running < line.maximum_running and not line.waiting:
            return
        if len(line.waiting) >= line.maximum_waiting:
            raise ResourcesExceeded(
                f"Resources exceeded during query execution: Too many DML statements outstanding against table "
                f"{table}, limit is {line.maximum_waiting}."
            )
        ticket, last_us = object(), self._clock.now_us() + MAXIMUM_WAIT_US
        line.waiting.append(ticket)
        try:
            while not (line.waiting[0] is ticket and line.running < line.maximum_running):
                if stop.is_set():
                    raise StoppedJob("Job execution was cancelled: User requested cancellation")
                if self._clock.now_us() > last_us:
                    raise ResourcesExceeded(f"The DML statement waited for seven hours in the queue of table {table}.")
                self._changed.wait(CANCEL_CHECK_INTERVAL_S)
        finally:
            line.waiting.remove(ticket)
            self._changed.notify_all()
