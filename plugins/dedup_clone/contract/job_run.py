"""The record that each run of the Spark job writes when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class JobRun:
    """One run of the dedup job. `run`: its own id, as in the names of its files and folders.

    `spark_application`: Spark's application id, as in its UI and event log.
    """

    run: str
    spark_application: str
    started_at: datetime
