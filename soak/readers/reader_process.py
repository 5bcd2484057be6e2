"""Runs readers in a separate process, as threads that query at a steady rate, like dashboards.

In a separate process readers do not wait for the publisher's interpreter lock. Times of both processes can be compared,
because all processes of a machine share the clock of `time.monotonic()`.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from contextlib import closing
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Any

from soak.readers.expected_answers import ObservedAnswer, ReaderQuery
from testkit.errors import HarnessError

# With 50 queries a second each thread runs one every 0.32 s. A thread keeps this rate on a busy machine too, where an
# answer can take almost as long.
THREADS = 16
# A reader that is late still runs the queries that were due at most this long ago. A small Spark job, which can slow
# readers down, takes less time.
CATCH_UP_S = 60.0
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 120.0


class Reader(threading.Thread):
    """Runs one query every `interval_s` seconds, the first one after `delay_s` seconds, until it is stopped.

    No other thread may use its `client`. `observed`: the answers so far.
    """

    def __init__(self, client: Any, table: str, interval_s: float, delay_s: float) -> None:
        super().__init__(daemon=True)
        self.observed: list[ObservedAnswer] = []
        self._client = client
        self._table = table
        self._interval_s = interval_s
        self._delay_s = delay_s
        self._stopping = threading.Event()

    def run(self) -> None:
        due = time.monotonic() + self._delay_s
        for query in cycle(ReaderQuery):
            if self._stopping.wait(max(0.0, due - time.monotonic())):
                return
            self.observed.append(self._run_query(query))
            due = max(due + self._interval_s, time.monotonic() - CATCH_UP_S)

    def _run_query(self, query: ReaderQuery) -> ObservedAnswer:
        began = time.monotonic()
        try:
            rows = list(self._client.query_and_wait(query.value.format(table=self._table)))
        except Exception as error:  # whatever the client raises is an error that a reader would see
            return ObservedAnswer(query, began, time.monotonic(), (), f"{type(error).__name__}: {error}")
        return ObservedAnswer(query, began, time.monotonic(), tuple(tuple(row.values()) for row in rows))

    def stop(self) -> None:
        self._stopping.set()


def run_readers(channel: Connection, new_client: Callable[[], Any], table: str, per_second: float) -> None:
    """The main function of the readers' process.

    It sends None through `channel` when the readers have started. When it receives a message, it stops the readers and
    sends a list of each reader's answers.
    """
    interval_s = THREADS / per_second
    readers = [Reader(new_client(), table, interval_s, interval_s * number / THREADS) for number in range(THREADS)]
    for reader in readers:
        reader.start()
    channel.send(None)
    channel.recv()
    for reader in readers:
        reader.stop()
    for reader in readers:
        reader.join()
    channel.send([reader.observed for reader in readers])


class Readers:
    """Starts and stops the readers' process. All readers together run `per_second` queries a second.

    `new_client`: returns a new BigQuery client; it must be possible to pickle this function. `seconds`: how long the
    readers ran; 0 until they are stopped.
    """

    def __init__(self, new_client: Callable[[], Any], table: str, per_second: float) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._parent_end, child_end = spawn.Pipe()
        self._process = spawn.Process(target=run_readers, args=(child_end, new_client, table, per_second), daemon=True)
        self._child_end = child_end
        self._began = 0.0
        self.seconds = 0.0

    def start(self) -> None:
        """Start the readers, and return once they run. Raises HarnessError if they do not start."""
        self._process.start()
        self._child_end.close()  # so that the pipe is closed when the process ends
        self._receive(START_TIMEOUT_S)
        self._began = time.monotonic()

    def stop(self) -> list[list[ObservedAnswer]]:
        """Stop the readers, and return the answers of each in order.

        Raises HarnessError if their process has died or does not answer in time.
        """
        with closing(self._parent_end):
            self.seconds = time.monotonic() - self._began
            try:
                self._parent_end.send(None)
            except OSError as error:
                raise HarnessError("The readers' process has died: see its traceback above.") from error
            observed: list[list[ObservedAnswer]] = self._receive(STOP_TIMEOUT_S)
        self._process.join(STOP_TIMEOUT_S)
        return observed

    def _receive(self, timeout_s: float) -> Any:
        try:
            if self._parent_end.poll(timeout_s):
                return self._parent_end.recv()
        except EOFError as error:
            raise HarnessError("The readers' process has died: see its traceback above.") from error
        self._process.kill()
        raise HarnessError(f"The readers' process did not answer within {timeout_s:.0f} s.")
