"""Reader threads: each asks at a steady pace through google-cloud-bigquery, as a dashboard does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

from soak.readers.timeline import Question, Seen

THREADS = 8


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
            due = max(due + self._interval_s, time.monotonic() - self._interval_s)  # what was missed is not made up for

    def _ask(self, question: Question) -> Seen:
        began = time.monotonic()
        try:
            rows = list(self._client.query_and_wait(question.value.format(table=self._table)))
        except Exception as error:  # whatever a reader would see
            return Seen(question, began, time.monotonic(), (), f"{type(error).__name__}: {error}")
        return Seen(question, began, time.monotonic(), tuple(tuple(row.values()) for row in rows))

    def stop(self) -> None:
        self._asked_to_stop.set()


class Readers:
    """All readers together ask `per_second` questions a second."""

    def __init__(self, new_client: Callable[[], Any], table: str, per_second: float) -> None:
        interval_s = THREADS / per_second
        self._readers = [
            Reader(new_client(), table, interval_s, interval_s * number / THREADS) for number in range(THREADS)
        ]
        self._began = 0.0
        self.seconds = 0.0

    def start(self) -> None:
        self._began = time.monotonic()
        for reader in self._readers:
            reader.start()

    def stop(self) -> list[list[Seen]]:
        """What each reader has seen, in order."""
        for reader in self._readers:
            reader.stop()
        for reader in self._readers:
            reader.join()
        self.seconds = time.monotonic() - self._began
        return [reader.seen for reader in self._readers]
