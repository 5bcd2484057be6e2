"""The line in which UPDATE, DELETE and MERGE of one table wait for their turn (F23).

Source: "Using data manipulation language (DML)", UPDATE, DELETE, MERGE DML concurrency.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from devstack.bigquery.errors import StoppedJob
from devstack.bigquery.storage.model import TableId
from devstack.bigquery.storage.refusals import ResourcesExceeded

RUNNING_AT_A_TIME = 2
WAITING_AT_MOST = 20
_LOOK_AGAIN_S = 0.1  # a cancelled job is not woken


@dataclass
class _Line:
    running: int = 0
    waiting: deque[object] = field(default_factory=deque)


class DmlLine:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: dict[TableId, _Line] = {}

    @contextmanager
    def turn(self, table: TableId, stop: threading.Event) -> Iterator[None]:
        """The block runs as one of the table's two. Raises ResourcesExceeded at once when the line is full, and
        StoppedJob when `stop` is set before the turn has come.
        """
        with self._changed:
            line = self._lines.setdefault(table, _Line())
            self._wait(line, table, stop)
            line.running += 1
        try:
            yield
        finally:
            with self._changed:
                line.running -= 1
                self._changed.notify_all()

    def _wait(self, line: _Line, table: TableId, stop: threading.Event) -> None:
        if line.running < RUNNING_AT_A_TIME and not line.waiting:
            return
        if len(line.waiting) >= WAITING_AT_MOST:
            raise ResourcesExceeded(
                f"Resources exceeded during query execution: Too many DML statements outstanding against table "
                f"{table}, limit is {WAITING_AT_MOST}."
            )
        ticket = object()
        line.waiting.append(ticket)
        try:
            while not (line.waiting[0] is ticket and line.running < RUNNING_AT_A_TIME):
                if stop.is_set():
                    raise StoppedJob("Job execution was cancelled: User requested cancellation")
                self._changed.wait(_LOOK_AGAIN_S)
        finally:
            line.waiting.remove(ticket)
            self._changed.notify_all()
