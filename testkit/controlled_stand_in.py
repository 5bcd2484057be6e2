"""Controls the clock and the faults of a running BigQuery stand-in."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import requests
from google.cloud.bigquery import Client as BigQuery

from testkit.stand_in_faults import add_fault, clear_faults


class ControlledStandIn:
    """A client of the stand-in (`bigquery`), and methods that call the stand-in's own endpoints."""

    def __init__(self, bigquery: BigQuery) -> None:
        self.bigquery = bigquery

    @property
    def _url(self) -> str:
        return str(self.bigquery._connection.API_BASE_URL)

    def pass_time(self, duration: timedelta) -> None:
        """Move the stand-in's clock forward. What has expired by then is deleted, and due row changes are applied."""
        body = {"advance_seconds": duration.total_seconds()}
        requests.post(f"{self._url}/_standin/clock", json=body, timeout=60).raise_for_status()

    def add_fault(self, fault: dict[str, Any]) -> None:
        """Add a fault to the stand-in, as `stand_in_faults.add_fault` describes it."""
        add_fault(self._url, fault)

    def clear_faults(self) -> None:
        clear_faults(self._url)

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
