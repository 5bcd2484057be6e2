"""Controls clock and faults of a running BigQuery stand-in (`python -m devstack.bigquery --help` names the calls)."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import requests
from google.cloud.bigquery import Client as BigQuery


class ControlledStandIn:
    """A client of the stand-in (`bigquery`), and methods that call the stand-in's own endpoints."""

    def __init__(self, bigquery: BigQuery) -> None:
        self.bigquery = bigquery

    def _control(self, method: str, path: str, body: Any = None) -> None:
        url = f"{self.bigquery._connection.API_BASE_URL}/_standin/{path}"
        answer = requests.request(method, url, json=body, timeout=60)
        assert answer.ok, f"The stand-in does not accept [{body}]: {answer.text[:300]}"

    def pass_time(self, duration: timedelta) -> None:
        """Move the stand-in's clock forward. What has expired by then is deleted, and due row changes are applied."""
        self._control("POST", "clock", {"advance_seconds": duration.total_seconds()})

    def add_fault(self, fault: dict[str, Any]) -> None:
        """Add a fault. Its `match` selects jobs (by `job_id`, `job_type`) or requests (by `method`, `path`)."""
        self._control("POST", "faults", fault)

    def clear_faults(self) -> None:
        self._control("DELETE", "faults")

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
