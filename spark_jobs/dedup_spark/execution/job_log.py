"""Writes the job's log on the driver, measures the phases of the job, and counts the dates that a phase has done."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dedup_clone.contract.request import DedupRequest

_logger = logging.getLogger("dedup_spark")


@dataclass
class Progress:
    """How far a phase is. The driver's main thread writes it, the thread that reports it reads it.

    `of`: the number of dates that the phase works on; 0 if it does not count dates. `done`: how many of them are done.
    `at_work`: how many of the others the running Spark job works on.
    """

    phase: str
    date_count: int = 0
    done_count: int = 0
    running_count: int = 0
    _reported: int = 0

    def estimated_done(self, share: float) -> int:
        """The number of dates done if this share of the running Spark job's tasks is done. It never falls."""
        self._reported = max(self._reported, self.done_count + int(self.running_count * share))
        return self._reported


class JobLog:
    """Writes log lines that begin with feed, snapshot ids and generation.

    `seconds`: how long each phase took. `progress`: of the phase that began last.
    """

    def __init__(self, request: DedupRequest) -> None:
        ids = ",".join(str(d.delivery.snapshot_id) for d in request.deliveries) or "-"
        self._prefix = f"feed={request.feed} snapshot_id={ids} generation={request.generation}"
        self.seconds: dict[str, float] = {}
        self.progress = Progress("start")

    def info(self, text: str) -> None:
        _logger.info("%s %s", self._prefix, text)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the `with` block as this phase. The seconds of a phase that runs several times are added up."""
        self.progress = Progress(str(name))
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[str(name)] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 3)

    def expect_dates(self, count: int) -> None:
        """The phase works on so many more dates."""
        self.progress.date_count += count

    @contextmanager
    def dates_at_work(self, count: int) -> Iterator[None]:
        """In the `with` block Spark jobs work on so many of the phase's dates, which are done at its end."""
        progress = self.progress
        progress.running_count = count
        yield
        progress.done_count, progress.running_count = progress.done_count + count, 0
