"""The demo: the deliveries that do not count for the table that it expects, and how it follows publishes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from unittest.mock import Mock

import pyarrow as pa
import pytest
from google.cloud.storage import Bucket

from dedup_clone.contract.delivery import Delivery
from devstack.demo import publish_runs
from devstack.demo.airflow_api import DemoError, Task
from devstack.demo.output import Terminal
from devstack.demo.table_comparison import differences, expected_table
from devstack.producer import feeds, landing
from devstack.producer.feeds import SCHEMA

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


def test_rows_that_differ_are_named_and_duplicates_count() -> None:
    twenty, five = table(20, 1), table(5, 1)
    assert differences(pa.concat_tables([twenty, five]), pa.concat_tables([five, twenty])) == []
    shown = "date=2026-03-01, product_id=1, store_id=1, attribute_id=1, attr_value={}, update_id=1"
    assert differences(pa.concat_tables([twenty, twenty]), pa.concat_tables([twenty, five])) == [
        f"published, not expected: {shown.format(20)}",
        f"expected, not published: {shown.format(5)}",
    ]


def airflow(states: dict[str, list[str | None]]) -> Mock:
    """`states`: what Airflow answers of each DAG's run, one after the other."""
    api = Mock(log_lines=Mock(return_value=["INFO begins", "ERROR no such table"]))
    api.tasks.return_value = [Task("load", "failed", 3, -1), Task("dedup", "running", 1, -1)]
    api.run_state.side_effect = lambda dag, run: states[dag].pop(0)
    api.run_page.side_effect = lambda dag, run, task: f"http://airflow/{run}"
    return api


def test_deliveries_are_followed_to_the_end_of_their_publishes(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(publish_runs, "POLL_INTERVAL_S", 0)
    one = landing.land(bucket, FEED, 1, table(20, 1))
    two = replace(one, feed="two", delivery=Delivery(2, 99))
    states = {"product_attributes_publish": [None, "running", "success"], "two_publish": ["success"]}
    assert list(publish_runs.follow(airflow(states), [one, two], Terminal())) == [two, one]
    shown = [line.split(maxsplit=2)[2] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["product_attributes 1: waits for the sensor", "product_attributes 1: dedup (running)"]
    failure = r"task \[load\] failed on try \[3\].*\n    ERROR no such table\n.*publish__2__99"
    with pytest.raises(DemoError, match=failure):
        list(publish_runs.follow(airflow({"two_publish": ["failed"]}), [two], Terminal()))
