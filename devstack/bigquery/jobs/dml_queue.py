"""Limits how many DML statements of one table run at a time; further statements wait in a queue.

Each table has two queues: one for UPDATE, DELETE and MERGE, and one for INSERT. INSERTs wait only after the table has
had UNQUEUED_INSERTS_PER_DAY of them in 24 hours.

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
from devstack.bigquery.clock import HOUR_US, Clock
from devstack.bigquery.storage.model import TableId

MAXIMUM_RUNNING = 2
MAXIMUM_WAITING = 20
UNQUEUED_INSERTS_PER_DAY = 1_500
MAXIMUM_RUNNING_INSERTS = 10
MAXIMUM_WAITING_INSERTS = 100
MAXIMUM_WAIT_US = 7 * HOUR_US
CANCEL_CHECK_INTERVAL_S = 0.1  # cancelling a job does not notify the queue, so it polls


@dataclass
class _Queue:
    """One queue of a table. `running_count` includes the INSERTs that did not have to wait.

    `waiting`: an object for each waiting statement, the oldest first.
    """

    maximum_running: int
    maximum_waiting: int
    running_count: int = 0
    waiting: deque[object] = field(default_factory=deque)


class DmlQueue:
    """The queues of all tables. Threads may share it.

    `inserts_of_day`: returns the number of a table's INSERTs in the last 24 hours.
    """

    def __init__(self, clock: Clock, inserts_of_day: Callable[[TableId], int] = lambda table: 0) -> None:
        self._clock = clock
        self._inserts_of_day = inserts_of_day
        self._changed = threading.Condition()
        self._mutation_queues: dict[TableId, _Queue] = {}
        self._insert_queues: dict[TableId, _Queue] = {}

    @contextmanager
    def admit(self, table: TableId, stop: threading.Event) -> Iterator[None]:
        """Run the `with` block as one of the table's running statements, after waiting in the table's queue if need be.

        Raises ResourcesExceeded at once if the queue is full, or after seven hours in it, and StoppedJob if `stop` is
        set while waiting.
        """
        with self._changed:
            queue = self._mutation_queues.setdefault(table, _Queue(MAXIMUM_RUNNING, MAXIMUM_WAITING))
        with self._running(queue, table, stop, is_limited=True):
            yield

    @contextmanager
    def admit_insert(self, table: TableId, stop: threading.Event) -> Iterator[None]:
        """As `admit`, for an INSERT."""
        with self._changed:
            queue = self._insert_queues.setdefault(table, _Queue(MAXIMUM_RUNNING_INSERTS, MAXIMUM_WAITING_INSERTS))
            is_limited = self._inserts_of_day(table) + queue.running_count >= UNQUEUED_INSERTS_PER_DAY
        with self._running(queue, table, stop, is_limited=is_limited):
            yield

    @contextmanager
    def _running(self, queue: _Queue, table: TableId, stop: threading.Event, *, is_limited: bool) -> Iterator[None]:
        """Count the statement as running during the block. If `is_limited`, first wait until it may run."""
        with self._changed:
            if is_limited:
                self._wait(queue, table, stop)
            queue.running_count += 1
        try:
            yield
        finally:
            with self._changed:
                queue.running_count -= 1
                self._changed.notify_all()

    def _wait(self, queue: _Queue, table: TableId, stop: threading.Event) -> None:
        if queue.running_count < queue.maximum_running and not queue.waiting:
            return
        if len(queue.waiting) >= queue.maximum_waiting:
            raise ResourcesExceeded(
                f"Resources exceeded during query execution: Too many DML statements outstanding against table "
                f"{table}, limit is {queue.maximum_waiting}."
            )
        ticket, deadline_us = object(), self._clock.now_us() + MAXIMUM_WAIT_US
        queue.waiting.append(ticket)
        try:
            while not (queue.waiting[0] is ticket and queue.running_count < queue.maximum_running):
                if stop.is_set():
                    raise StoppedJob("Job execution was cancelled: User requested cancellation")
                if self._clock.now_us() > deadline_us:
                    raise ResourcesExceeded(f"The DML statement waited for seven hours in the queue of table {table}.")
                self._changed.wait(CANCEL_CHECK_INTERVAL_S)
        finally:
            queue.waiting.remove(ticket)
            self._changed.notify_all()
