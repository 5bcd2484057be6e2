"""Clients of the BigQuery stand-in, and small tables in it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from google.oauth2.credentials import Credentials

PROJECT = "local-dev"
BUCKET = "landing"
OVERRIDE_TIME_TRAVEL = "bigquery.rowAccessPolicies.overrideTimeTravelRestrictions"
FINE_GRAINED_READ = "datacatalog.categories.fineGrainedGet"
TODAY = datetime.now(UTC).date()


def bigquery_client(address: str, user: str | None = None) -> bigquery.Client:
    """A client that finds the stand-in at `address` by an environment variable, as the product's clients do.

    `user`: the email address of the caller; None to send no token.
    """
    credentials = AnonymousCredentials() if user is None else Credentials(user)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIGQUERY_EMULATOR_HOST", f"http://{address}")
        return bigquery.Client(project=PROJECT, credentials=credentials)


SCHEMA = [
    bigquery.SchemaField("day", "DATE"),
    bigquery.SchemaField("id", "INTEGER"),
    bigquery.SchemaField("number", "INTEGER"),
]


def make_table(client: bigquery.Client, name: str, expiration_days: int | None = 730) -> bigquery.Table:
    """Create a table with SCHEMA, partitioned by day and clustered by id. `name`: with its dataset."""
    table = bigquery.Table(f"{PROJECT}.{name}", schema=SCHEMA)
    expiration_ms = None if expiration_days is None else expiration_days * 86_400_000
    table.time_partitioning = bigquery.TimePartitioning(field="day", expiration_ms=expiration_ms)
    table.clustering_fields = ["id"]
    return client.create_table(table)


def load_rows(client: bigquery.Client, table: str, rows: Iterable[tuple[date, int, int]]) -> None:
    """Load rows of (day, id, number) by a job."""
    content = [{"day": f"{day}", "id": key, "number": number} for day, key, number in rows]
    client.load_table_from_json(content, table, job_config=bigquery.LoadJobConfig(schema=SCHEMA)).result()
