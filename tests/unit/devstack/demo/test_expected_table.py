from datetime import date

import pyarrow as pa
from google.cloud.storage import Bucket

from dedup_clone.contract.delivery import Delivery
from devstack.demo import expected_table
from devstack.demo.table_comparison import compare
from devstack.producer import landing
from devstack.producer.demo_feeds import SCHEMA

DAY = date(2026, 3, 1)


def snapshot(snapshot_id: int, values: dict[int, int | None], repeats: int = 1) -> pa.Table:
    """Product -> value, all of one store, attribute and day."""
    rows = [
        dict(zip(SCHEMA.names, (DAY, product, 1, 1, value, snapshot_id), strict=True))
        for product, value in values.items()
    ]
    return pa.Table.from_pylist(rows * repeats, schema=SCHEMA)


def expected(bucket: Bucket, *tables: pa.Table) -> bool:
    return compare(expected_table.expected_table(bucket, "feed"), pa.concat_tables(tables)).is_equal


def test_newest_snapshot_wins_and_missing_keys_stay(bucket: Bucket) -> None:
    landing.land(bucket, "feed", 1, snapshot(1, {1: 20, 2: 21}))
    landing.land(bucket, "feed", 2, snapshot(2, {1: 5, 3: 22}))
    assert expected(bucket, snapshot(2, {1: 5, 3: 22}), snapshot(1, {2: 21}))


def test_order_of_arrival_does_not_matter(bucket: Bucket) -> None:
    landing.land(bucket, "feed", 2, snapshot(2, {1: 5}))
    landing.land(bucket, "feed", 1, snapshot(1, {1: 20, 2: 21}))
    assert expected(bucket, snapshot(2, {1: 5}), snapshot(1, {2: 21}))


def test_greatest_value_wins_within_one_snapshot(bucket: Bucket) -> None:
    rows = pa.concat_tables([snapshot(1, {1: 7, 2: None}), snapshot(1, {1: 9, 2: -4})])
    landing.land(bucket, "feed", 1, rows)
    assert expected(bucket, snapshot(1, {1: 9, 2: -4}))


def test_incomplete_snapshot_does_not_count(bucket: Bucket) -> None:
    landing.land(bucket, "feed", 1, snapshot(1, {1: 20}))
    landing.land(bucket, "feed", 2, snapshot(2, {1: 5}))
    bucket.blob("feed/snapshot_id=2/_SUCCESS").delete()
    assert expected(bucket, snapshot(1, {1: 20}))


def test_refused_snapshot_counts_only_if_it_is_delivered_again(bucket: Bucket) -> None:
    landing.land(bucket, "feed", 1, snapshot(1, {1: 20}))
    refused = [Delivery(2, landing.land(bucket, "feed", 2, snapshot(2, {1: 5})).marker_generation)]
    assert expected_table.expected_table(bucket, "feed", refused).equals(snapshot(1, {1: 20}))
    landing.land(bucket, "feed", 2, snapshot(2, {1: 6}))
    assert expected_table.expected_table(bucket, "feed", refused).equals(snapshot(2, {1: 6}))


def test_feed_without_snapshots_is_empty(bucket: Bucket) -> None:
    assert expected_table.expected_table(bucket, "feed").num_rows == 0
