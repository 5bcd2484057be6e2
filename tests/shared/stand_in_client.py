"""Calls the BigQuery stand-in for its contract tests: a client, small tables, and `/_standin/` endpoints."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from google.oauth2.credentials import Credentials

PROJECT = "local-dev"
STAND_IN_USER = "user:stand-in@local.invalid"  # who makes a request without a token
OVERRIDE_TIME_TRAVEL = "bigquery.rowAccessPolicies.overrideTimeTravelRestrictions"
FINE_GRAINED_READ = "datacatalog.categories.fineGrainedGet"


def bigquery_client(address: str, user: str | None = None) -> bigquery.Client:
    """A client that finds the stand-in at `address` by an environment variable, as the product's clients do.

    `user`: the email address of the caller; None to send no token.
    """
    credentials = AnonymousCredentials() if user is None else Credentials(user)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIGQUERY_EMULATOR_HOST", f"http://{address}")
        return bigquery.Client(project=PROJECT, credentials=credentials)


class Control:
    """Calls the stand-in's own endpoints below /_standin/, for its clock, faults and grants."""

    def __init__(self, address: str) -> None:
        self._root = f"http://{address}/_standin"

    def advance(self, **time: float) -> None:
        """Advance the clock. `time`: arguments of timedelta."""
        seconds = timedelta(**time).total_seconds()
        requests.post(f"{self._root}/clock", json={"advance_seconds": seconds}, timeout=30).raise_for_status()

    def now(self) -> datetime:
        answer = requests.get(f"{self._root}/clock", timeout=30).json()
        return datetime.fromisoformat(answer["now"])

    def add_fault(self, **fault: Any) -> None:
        requests.post(f"{self._root}/faults", json=fault, timeout=30).raise_for_status()

    def grant(self, permission: str, member: str = STAND_IN_USER) -> None:
        body = {"member": member, "permission": permission}
        requests.post(f"{self._root}/grants", json=body, timeout=30).raise_for_status()

    def clear_grants(self) -> None:
        requests.delete(f"{self._root}/grants", timeout=30).raise_for_status()

    def clear_faults(self) -> None:
        requests.delete(f"{self._root}/faults", timeout=30).raise_for_status()
