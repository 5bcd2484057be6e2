"""Controls clock and faults of a running BigQuery stand-in, and waits for its jobs."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from google.cloud.bigquery import Client as BigQuery

from testkit.server_clients import control_of


class ControlledStandIn:
    """A client of the stand-in (`bigquery`), and its control."""

    def __init__(self, bigquery: BigQuery) -> None:
        self.bigquery = bigquery
        self.control = control_of(bigquery)

    def pass_time(self, duration: timedelta) -> None:
        self.control.advance(seconds=duration.total_seconds())

    def add_fault(self, fault: dict[str, Any]) -> None:
        self.control.add_fault(**fault)

    def clear_faults(self) -> None:
        self.control.clear_faults()

    def delay_jobs(self, job_id: str, seconds: float, *, times: int = 1) -> None:
        """Delay each of the next `times` BigQuery jobs whose id matches the regular expression `job_id`."""
        self.add_fault({"match": {"job_id": job_id}, "effect": "delay", "seconds": seconds, "times": times})

    def wait_for_all_jobs(self) -> None:
        """Wait until no BigQuery job is pending or runs. Polls states, because `job.result` would retry failed jobs."""
        # In this order no job is missed: a pending job that starts before the first request is in the second list.
        for state in ("pending", "running"):
            for job in self.bigquery.list_jobs(state_filter=state):
                while self.bigquery.get_job(job.job_id, location=job.location).state != "DONE":
                    time.sleep(0.02)
