"""Writes the job's log on the driver, and measures the phases of the job."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dedup_clone.contract.request import DedupRequest

_logger = logging.getLogger("dedup_spark")


class JobLog:
    """Writes log lines that begin with feed, snapshot ids and generation. `seconds`: how long each phase took."""

    def __init__(self, request: DedupRequest) -> None:
        ids = ",".join(str(d.delivery.snapshot_id) for d in request.deliveries) or "-"
        self._prefix = f"feed={request.feed} snapshot_id={ids} generation={request.generation}"
        self.seconds: dict[str, float] = {}

    def info(self, text: str) -> None:
        _logger.info("%s %s", self._prefix, text)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the `with` block as this phase. The seconds of a phase that runs several times are added up."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[str(name)] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 3)
