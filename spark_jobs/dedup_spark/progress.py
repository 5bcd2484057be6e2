"""What the driver says: one line a fact, and how many dates are done while Spark works."""

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

log = logging.getLogger("dedup_spark")

_INTERVAL_S = 10.0
Slot = tuple[date, int]


class _Union(AccumulatorParam[set[Slot]]):
    """Slots as a set: an attempt that Spark ran twice counts once."""

    def zero(self, value: set[Slot]) -> set[Slot]:
        return set()

    def addInPlace(self, value1: set[Slot], value2: set[Slot]) -> set[Slot]:  # noqa: N802, RUF100 - Spark's name
        value1 |= value2
        return value1


class Facts:
    """Log lines that all name feed, snapshots and generation."""

    def __init__(self, request: DedupRequest) -> None:
        ids = ",".join(str(d.delivery.snapshot_id) for d in request.deliveries) or "-"
        self._where = f"feed={request.feed} snapshot_id={ids} generation={request.generation}"
        self.seconds: dict[str, float] = {}

    def say(self, text: str) -> None:
        log.info("%s %s", self._where, text)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times a phase; the seconds go into the candidate's metrics. Repeated phases add up."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 3)


class _Progress(ABC):
    """Says every few seconds, and at the end, how many dates are done: those with all their slots finished."""

    def __init__(self, buckets: Mapping[date, int], say: Callable[[str], None]) -> None:
        self._buckets = buckets
        self._say = say
        self._began = time.monotonic()

    @abstractmethod
    def slots(self) -> set[Slot]:
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
        self._say(self.line(done=len(self._buckets)))

    def _report(self, stop: threading.Event) -> None:
        while not stop.wait(_INTERVAL_S):
            seen = Counter(day for day, _ in self.slots())
            self._say(self.line(done=sum(1 for day, count in seen.items() if count >= self._buckets[day])))

    def line(self, done: int) -> str:
        total = len(self._buckets)
        elapsed = time.monotonic() - self._began
        rate = f", {done / elapsed:.1f} a second" if done and elapsed else ""
        left = f", about {elapsed / done * (total - done):.0f} s left" if 0 < done < total else ""
        return f"dates {done}/{total} in {elapsed:.1f} s{rate}{left}"


class DateProgress(_Progress):
    """Counts dates whose buckets are all written, from what finished Spark tasks report."""

    def __init__(self, context: SparkContext, buckets: Mapping[date, int], say: Callable[[str], None]) -> None:
        super().__init__(buckets, say)
        self._done = context.accumulator(set(), _Union())

    def slots(self) -> set[Slot]:
        return set(self._done.value)

    def reporter(self) -> Callable[[date, int], None]:
        """For the workers: knows the accumulator only, so that it can be sent to them."""
        done = self._done

        def finished(day: date, bucket: int) -> None:
            done.add({(day, bucket)})

        return finished


class DriverProgress(_Progress):
    """Counts dates that threads of the driver have finished."""

    def __init__(self, buckets: Mapping[date, int], say: Callable[[str], None]) -> None:
        super().__init__(buckets, say)
        self._done: set[Slot] = set()

    def slots(self) -> set[Slot]:
        return self._done.copy()

    def finished(self, day: date, bucket: int) -> None:
        self._done.add((day, bucket))
