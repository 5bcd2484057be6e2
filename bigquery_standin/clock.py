"""Provides the stand-in's current time: the machine's clock plus an offset, which tests increase.

The offset is stored, and survives a restart.
"""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from bigquery_standin.atomic_files import write_atomically
from bigquery_standin.bigquery_errors import Invalid

MICROSECONDS = 1_000_000
HOUR_US = 3_600 * MICROSECONDS
DAY_US = 24 * HOUR_US
DAY_MS = DAY_US // 1000


def to_datetime(microseconds: int) -> datetime:
    """The time in UTC of `microseconds` since 1970, exact to the microsecond: no float is involved."""
    seconds, rest = divmod(microseconds, MICROSECONDS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def floor_to_millisecond(microseconds: int) -> int:
    """The time rounded down to a whole millisecond. Argument and result are in microseconds."""
    return microseconds - microseconds % 1000


def from_datetime(moment: datetime) -> int:
    """Microseconds since 1970. A datetime without a time zone is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.replace(microsecond=0).timestamp()) * MICROSECONDS + aware.microsecond


class Clock:
    """The current time. It cannot be set back: a new version of a table would then seem older than the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._offset_us = int(json.loads(path.read_bytes())["offset_us"]) if path.exists() else 0

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self._offset_us

    def now(self) -> datetime:
        return to_datetime(self.now_us())

    def advance(self, microseconds: int) -> None:
        """Move the clock forward. Raises Invalid for a negative time."""
        if microseconds < 0:
            raise Invalid(
                f"Clock cannot go back, here by [{-microseconds / MICROSECONDS}] seconds: "
                "start a stand-in with an empty data folder for an earlier time."
            )
        with self._lock:
            write_atomically(self._path, json.dumps({"offset_us": self._offset_us + microseconds}).encode())
            self._offset_us += microseconds
