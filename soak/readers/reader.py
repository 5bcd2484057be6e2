"""Readers in a process of their own: threads that ask at a steady pace, as dashboards do.

They share nothing with the publisher but the server, so neither waits for the other's interpreter.
Times are `time.monotonic()`, which is one clock for all processes of a machine.
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

from soak.errors import SoakError
from soak.readers.timeline import Question, Seen

THREADS = 8
# A question that came late is made up for, unless the pace was lost for longer than this.
MADE_UP_FOR_S = 5.0
STARTED_WITHIN_S = 60.0
STOPPED_WITHIN_S = 120.0


class Reader(threading.Thread):
    """Asks every `interval_s` seconds until it is stopped; `client` is its own."""

    def __init__(self, client: Any, table: str, interval_s: float, delay_s: float) -> None:
        super().__init__(daemon=True)
        self.seen: list[Seen] = []
        self._client = client
        self._table = table
        self._interval_s = interval_s
        self._delay_s = delay_s
        self._asked_to_stop = threading.Event()

    def run(self) -> None:
        due = time.monotonic() + self._delay_s
        for question in cycle(Question):
            if self._asked_to_stop.wait(max(0.0, due - time.monotonic())):
                return
            self.seen.append(self._ask(question))
            due = max(due + self._interval_s, time.monotonic() - MADE_UP_FOR_S)

    def _ask(self, question: Question) -> Seen:
        began = time.monotonic()
        try:
            rows = list(self._client.query_and_wait(question.value.format(table=self._table)))
        except Exception as error:  # whatever a reader would see
            return Seen(question, began, time.monotonic(), (), f"{type(error).__name__}: {error}")
        return Seen(question, began, time.monotonic(), tuple(tuple(row.values()) for row in rows))

    def stop(self) -> None:
        self._asked_to_stop.set()


def read_until_told(channel: Connection, new_client: Callable[[], Any], table: str, per_second: float) -> None:
    """The readers' process: says when it begins, asks until a word comes, sends what each reader has seen."""
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
    channel.send([reader.seen for reader in readers])


class Readers:
    """All readers together ask `per_second` questions a second; `new_client` must be a function that pickles."""

    def __init__(self, new_client: Callable[[], Any], table: str, per_second: float) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._ours, theirs = spawn.Pipe()
        self._process = spawn.Process(target=read_until_told, args=(theirs, new_client, table, per_second), daemon=True)
        self._theirs = theirs
        self._began = 0.0
        self.seconds = 0.0

    def start(self) -> None:
        """Returns when the first questions are asked.

        Raises:
            SoakError: The process did not start.
        """
        self._process.start()
        self._theirs.close()  # so that its end is seen here
        self._receive(STARTED_WITHIN_S)
        self._began = time.monotonic()

    def stop(self) -> list[list[Seen]]:
        """What each reader has seen, in order.

        Raises:
            SoakError: The process has died, or does not end.
        """
        with closing(self._ours):
            self.seconds = time.monotonic() - self._began
            try:
                self._ours.send(None)
            except OSError as error:
                raise SoakError("The readers' process has died: see its traceback above.") from error
            seen: list[list[Seen]] = self._receive(STOPPED_WITHIN_S)
        self._process.join(STOPPED_WITHIN_S)
        return seen

    def _receive(self, within_s: float) -> Any:
        try:
            if self._ours.poll(within_s):
                return self._ours.recv()
        except EOFError as error:
            raise SoakError("The readers' process has died: see its traceback above.") from error
        self._process.kill()
        raise SoakError(f"The readers' process did not answer within {within_s:.0f} s.")
