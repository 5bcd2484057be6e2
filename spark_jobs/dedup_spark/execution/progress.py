"""The job's log on the driver, and the progress of dates while tasks work on them."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date

from pyspark import AccumulatorParam, SparkContext

from dedup_clone.contract.request import DedupRequest

_logger = logging.getLogger("dedup_spark")

_INTERVAL_S = 10.0
# A date, and the number of one of its output files; 0 where a date is done as a whole.
Part = tuple[date, int]


class _SetAccumulator(AccumulatorParam[set[Part]]):
    """A set, so that what a repeated task attempt reports counts once."""

    def zero(self, value: set[Part]) -> set[Part]:
        return set()

    def addInPlace(self, value1: set[Part], value2: set[Part]) -> set[Part]:  # noqa: N802, RUF100 - Spark's name
        value1 |= value2
        return value1


class JobLog:
    """Log lines that all name feed, snapshots and generation, and the seconds that each phase took."""

    def __init__(self, request: DedupRequest) -> None:
        ids = ",".join(str(d.delivery.snapshot_id) for d in request.deliveries) or "-"
        self._prefix = f"feed={request.feed} snapshot_id={ids} generation={request.generation}"
        self.seconds: dict[str, float] = {}

    def info(self, text: str) -> None:
        _logger.info("%s %s", self._prefix, text)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase. The seconds go into the candidate's metrics; those of repeated phases add up."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 3)


class _Progress(ABC):
    """Logs every few seconds, and at the end, how many dates are done. `parts` is how many parts each date has."""

    def __init__(self, parts: Mapping[date, int], log: Callable[[str], None]) -> None:
        self._parts = parts
        self._log = log
        self._began = time.monotonic()

    @abstractmethod
    def done(self) -> set[Part]:
        """What is finished so far."""

    @contextmanager
    def reporting(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._report, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        self._log(self._line(len(self._parts)))

    def _report(self, stop: threading.Event) -> None:
        while not stop.wait(_INTERVAL_S):
            counts = Counter(day for day, _ in self.done())
            self._log(self._line(sum(1 for day, count in counts.items() if count >= self._parts[day])))

    def _line(self, done: int) -> str:
        total = len(self._parts)
        elapsed = time.monotonic() - self._began
        rate = f", {done / elapsed:.1f} a second" if done and elapsed else ""
        left = f", about {elapsed / done * (total - done):.0f} s left" if 0 < done < total else ""
        return f"dates {done}/{total} in {elapsed:.1f} s{rate}{left}"


class SparkProgress(_Progress):
    """Counts the dates of which Spark tasks have finished all parts."""

    def __init__(self, context: SparkContext, parts: Mapping[date, int], log: Callable[[str], None]) -> None:
        super().__init__(parts, log)
        self._done = context.accumulator(set(), _SetAccumulator())

    def done(self) -> set[Part]:
        return set(self._done.value)

    def reporter(self) -> Callable[[date, int], None]:
        """Return a function for the workers: it refers to the accumulator only, so that it can be sent to them."""
        done = self._done

        def finished(day: date, part: int) -> None:
            done.add({(day, part)})

        return finished


class DriverProgress(_Progress):
    """Counts the dates that threads of the driver have finished."""

    def __init__(self, parts: Mapping[date, int], log: Callable[[str], None]) -> None:
        super().__init__(parts, log)
        self._done: set[Part] = set()

    def done(self) -> set[Part]:
        return self._done.copy()

    def finished(self, day: date, part: int) -> None:
        self._done.add((day, part))
