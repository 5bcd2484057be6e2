"""Writes the job's log on the driver, measures the phases of the job, and counts the dates that a phase has done."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dedup_clone.contract.attempt import Attempt

_logger = logging.getLogger("dedup_spark")


@dataclass
class Progress:
    """How far a phase is. The driver's main thread writes this object, and the thread that reports progress reads it.

    `date_count`: the number of dates that the phase handles; 0 if it does not count dates. `done_count`: how many of
    them are done. `running_count`: how many of them the running Spark job handles.
    """

    phase: str
    date_count: int = 0
    done_count: int = 0
    running_count: int = 0
    _reported: int = 0

    def estimated_done(self, share: float) -> int:
        """About how many dates are done. `share`: the share (0 to 1) of the running Spark job's tasks that are done.

        The number never falls.
        """
        self._reported = max(self._reported, self.done_count + int(self.running_count * share))
        return self._reported


class JobLog:
    """Writes log lines that begin with feed, snapshot ids and generation.

    `seconds`: how long each phase took. `progress`: of the phase that began last.
    """

    def __init__(self, attempt: Attempt) -> None:
        ids = ",".join(str(d.snapshot_id) for d in attempt.deliveries) or "-"
        self._prefix = f"feed={attempt.feed} snapshot_id={ids} generation={attempt.generation}"
        self.seconds: dict[str, float] = {}
        self.progress = Progress("start")

    def info(self, text: str) -> None:
        _logger.info("%s %s", self._prefix, text)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the `with` block as the phase `name`. If a phase runs several times, its seconds are added up."""
        self.progress = Progress(str(name))
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[str(name)] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 3)

    def expect_dates(self, count: int) -> None:
        """Add `count` to the number of dates that the current phase handles."""
        self.progress.date_count += count

    @contextmanager
    def dates_at_work(self, count: int) -> Iterator[None]:
        """Count `count` of the phase's dates as running in the `with` block, and as done after it."""
        progress = self.progress
        progress.running_count = count
        yield
        progress.running_count = 0  # first, so that the thread that reports never counts these dates twice
        progress.done_count += count
