import json
from datetime import UTC, datetime
from typing import Any

import pytest
from google.cloud.storage import Bucket

from devstack.demo import ledger_record
from devstack.demo.airflow_api import DemoError

RECORD: dict[str, Any] = {
    "feed": "feed",
    "outcome": "published",
    "snapshot_id": 2,
    "deliveries": [{"snapshot_id": 2}],
    "generation": 12,
    "run_id": "publish__2__99",
    "arrived_at": "2026-03-01T10:00:00+00:00",
    "swapped_at": "2026-03-01T10:00:41+00:00",
    "lag_s": 41.0,
    "rows": 6,
    "new_rows": 1,
    "changed_rows": 2,
    "kept_rows": 3,
    "dropped_rows": 0,
    "phases": {"dedup": 12.5, "load": 3},
    "a field of tomorrow": 1,
}


def put(bucket: Bucket, name: str, **changes: Any) -> None:
    bucket.blob(f"feed/ledger/{name}.json").upload_from_string(json.dumps(RECORD | changes))


def test_finds_the_record_of_the_run_among_others(bucket: Bucket) -> None:
    put(bucket, "00000011-abc", run_id="publish__1__98", generation=11)
    put(bucket, "00000012-def")
    put(bucket, "00000013-fff", outcome="refused")
    found = ledger_record.read_entry(bucket, "feed", "publish__2__99")
    assert (found.generation, found.changed_rows, found.phases) == (12, 2, {"dedup": 12.5, "load": 3.0})
    assert found.arrived_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_run_without_a_record_is_an_error_that_names_both(bucket: Bucket) -> None:
    put(bucket, "00000012-def", outcome="failed")
    with pytest.raises(DemoError, match=r"publish__2__99.*feed/ledger"):
        ledger_record.read_entry(bucket, "feed", "publish__2__99")


def test_a_record_without_an_outcome_is_none_of_a_publish(bucket: Bucket) -> None:
    bucket.blob("feed/ledger/00000012-def.json").upload_from_string("{}")
    with pytest.raises(DemoError, match="no record of it"):
        ledger_record.read_entry(bucket, "feed", "publish__2__99")


def test_record_of_a_publish_that_compared_no_values_is_read() -> None:
    assert ledger_record.parse_entry({**RECORD, "changed_rows": None}, "some-record").changed_rows is None


def test_record_without_a_needed_field_is_named() -> None:
    without = {name: value for name, value in RECORD.items() if name != "kept_rows"}
    with pytest.raises(DemoError, match=r"some-record.*kept_rows"):
        ledger_record.parse_entry(without, "some-record")
