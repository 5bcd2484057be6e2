"""The demo: the deliveries that do not count for the table that it expects, and what it reads of a publish."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest
from google.cloud.storage import Bucket

from dedup_clone.state.ledger import Ledger, Outcome
from dedup_clone.state.store import ObjectStore
from devstack.connection import Connection
from devstack.demo.airflow_api import DemoError
from devstack.demo.publish_runs import read_record
from devstack.demo.table_comparison import expected_table
from devstack.producer import feeds, landing
from devstack.producer.feeds import SCHEMA
from tests.shared.freshness_states import record

FEED = feeds.read("product_attributes")


def table(value: int, snapshot_id: int) -> pa.Table:
    """One row, of the same key as all others."""
    row = (date(2026, 3, 1), 1, 1, 1, value, snapshot_id)
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True))], schema=SCHEMA)


def test_incomplete_and_refused_snapshots_do_not_count(bucket: Bucket) -> None:
    landing.land(bucket, FEED, 1, table(20, 1))
    landing.land(bucket, FEED, 3, table(6, 3))
    bucket.blob("product_attributes/snapshot_id=3/_SUCCESS").delete()
    refused = [landing.land(bucket, FEED, 2, table(5, 2)).delivery]
    assert expected_table(bucket, "product_attributes", refused).equals(table(20, 1))
    landing.land(bucket, FEED, 2, table(6, 2))
    assert expected_table(bucket, "product_attributes", refused).equals(table(6, 2))


def test_the_ledgers_record_of_a_run_is_found_among_others(connection: Connection, bucket: Bucket) -> None:
    at_bucket = replace(connection, state_bucket=bucket.name)
    ledger = Ledger(ObjectStore(bucket.client, bucket.name), "feed")
    for number, (run, outcome) in enumerate(((98, "published"), (99, "published"), (99, "refused")), start=11):
        attempt = f"{number:08d}-abc"
        ledger.write(record(attempt=attempt, run_id=f"publish__2__{run}", outcome=Outcome(outcome)))
    assert read_record(at_bucket, "feed", "publish__2__99").attempt == "00000012-abc"
    with pytest.raises(DemoError):
        read_record(at_bucket, "feed", "publish__9__9")
