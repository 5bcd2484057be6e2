"""The record that a run of the Spark job leaves when it starts, whatever becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class JobRun:
    """One run of the dedup job. `spark_application` is Spark's id of it, by which its UI and event log are found."""

    run: str
    spark_application: str
    started_at: datetime
