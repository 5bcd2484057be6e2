"""Does what the stand-in does by itself: it applies streamed row changes, and empties streaming buffers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

INTERVAL_S = 1.0
LOG = logging.getLogger(__name__)


class Background:
    """A thread that calls the tasks every second."""

    def __init__(self, *tasks: Callable[[], object]) -> None:
        self._tasks = tasks
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def run_tasks(self) -> None:
        with self._lock:
            for task in self._tasks:
                task()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            try:
                self.run_tasks()
            except Exception:
                LOG.exception("A task in the background failed; it runs again in [%s] s.", INTERVAL_S)
