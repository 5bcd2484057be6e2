"""Clients of the BigQuery stand-in."""

from __future__ import annotations

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from google.oauth2.credentials import Credentials

PROJECT = "local-dev"
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
