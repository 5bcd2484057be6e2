"""The producer's snapshots: their schema, how the next one differs, and how they are landed in a real object store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from google.cloud.storage import Blob, Bucket

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.settings.feed import Feed
from dedup_clone.settings.table_settings import KEY_TYPES
from dedup_clone.state.arrivals import Arrivals, Refusal
from dedup_clone.state.store import ObjectStore
from dedup_spark.column_types import arrow_schema
from devstack.connection import Connection
from devstack.producer import __main__ as producer
from devstack.producer import declared_snapshots, feeds, landing, next_snapshot, worked_example
from devstack.producer.feeds import KEYS, SCHEMA

DAY = date(2026, 3, 1)
SEED = 7
PRODUCT_FEED = feeds.read("product_attributes")
PRODUCTS = PRODUCT_FEED.table.to_contract()


def by_key(rows: pa.Table, keys: tuple[str, ...], values: list[str]) -> dict[tuple[object, ...], str]:
    return {tuple(row[key] for key in keys): repr([row[name] for name in values]) for row in rows.to_pylist()}


def products(rows: pa.Table) -> dict[tuple[object, ...], str]:
    return by_key(rows, KEYS, ["attr_value"])


def differences(before: dict[tuple[object, ...], str], after: dict[tuple[object, ...], str]) -> tuple[int, int, int]:
    """The number of changed, new and missing keys."""
    changed = sum(before[key] != value for key, value in after.items() if key in before)
    return changed, len(after.keys() - before.keys()), len(before.keys() - after.keys())


@pytest.mark.parametrize(("days", "dates"), [(0, 13), (3, 14), (717, 14), (718, 13), (800, 1)])
def test_a_later_day_adds_its_date_and_drops_dates_past_retention(days: int, dates: int) -> None:
    first = declared_snapshots.first(PRODUCTS, DAY, 1, SEED, 400)
    table = declared_snapshots.following(PRODUCTS, first, DAY + timedelta(days=days), 2, SEED, 400)
    assert len(pc.unique(table["date"])) == dates
    assert pc.max(table["date"]).as_py() == DAY + timedelta(days=days)
    assert len(products(table)) == table.num_rows


@pytest.mark.parametrize("kind", sorted(KEY_TYPES))
def test_a_table_with_keys_and_values_of_each_type_can_be_made(kind: str) -> None:
    nested = (Column("x", kind), Column("y", "DATETIME"), Column("z", "FLOAT64"))
    columns = (
        Column("d", "DATE"),
        Column("k", kind, ColumnMode.REQUIRED),
        Column("v", kind),
        Column("many", kind, ColumnMode.REPEATED),
        Column("nested", "STRUCT", fields=nested),
        Column("id", "INT64"),
    )
    table = TableContract(columns, "d", "id", ("d", "k"), (), 30)
    first = declared_snapshots.first(table, DAY, 1, SEED, 30)
    rows = declared_snapshots.following(table, first, DAY, 2, SEED, 30)
    assert declared_snapshots.first(table, DAY, 1, SEED, 30).equals(first)
    assert declared_snapshots.following(table, first, DAY, 2, SEED, 30).equals(rows)
    for made in (first, rows):
        made.validate(full=True)
        assert made.schema.equals(arrow_schema(columns))
        assert len(by_key(made, table.keys, ["v"])) == made.num_rows


@pytest.mark.parametrize("kind", ["DATETIME", "TIMESTAMP"])
def test_a_table_may_be_partitioned_by_a_time(bucket: Bucket, kind: str) -> None:
    values = PRODUCT_FEED.model_dump()
    values["table"]["columns"] = [{**c, "type": kind} if c["name"] == "date" else c for c in values["table"]["columns"]]
    feed = Feed.model_validate(values, strict=False)
    table = feed.table.to_contract()
    first = declared_snapshots.first(table, DAY, 1, SEED, 30)
    rows = declared_snapshots.following(table, first, DAY + timedelta(days=1), 2, SEED, 30)
    assert len({value.date() for value in rows["date"].to_pylist()}) == 14
    assert landing.land(bucket, feed, 2, rows).date_count == 14
    names = {blob.name.split("/")[-2] for blob in bucket.list_blobs() if blob.name.endswith(".parquet")}
    assert names == {f"date={DAY - timedelta(days=number)}" for number in range(-1, 13)}


def test_the_two_snapshots_of_the_worked_example_show_each_kind_of_difference() -> None:
    first = worked_example.make(DAY, 1, None)
    second = worked_example.make(DAY, 2, first)
    assert differences(products(first), products(second)) == (1, 1, 1)
    wanted = {"product_id": 301865, "store_id": 2072, "attribute_id": 1, "attr_value": 20}
    assert any(wanted.items() <= row.items() for row in first.to_pylist())
    later = worked_example.make(DAY + timedelta(days=5), 3, second)
    assert set(pc.unique(later["date"]).to_pylist()) == {DAY + timedelta(days=n) for n in (-1, 0, 4, 5)}


def test_a_landed_delivery_reads_back_and_its_marker_comes_last(bucket: Bucket) -> None:
    table = declared_snapshots.first(PRODUCTS, DAY, 7, 1, 20)
    landed = landing.land(bucket, PRODUCT_FEED, 7, table)
    blobs = {blob.name: blob for blob in bucket.client.list_blobs(bucket)}
    marker = blobs.pop("product_attributes/snapshot_id=7/_SUCCESS")
    assert (landed.delivery.marker_generation, landed.arrived_at) == (marker.generation, marker.time_created)
    assert all(blob.time_created <= marker.time_created for blob in blobs.values())
    assert sorted(blobs)[-1] == "product_attributes/snapshot_id=7/date=2026-03-01/part-00000.parquet"
    assert len(blobs) == landed.date_count == 13
    order = [(name, "ascending") for name in SCHEMA.names]
    assert landing.read(bucket, "product_attributes", 7, SCHEMA).sort_by(order).equals(table.sort_by(order))


def test_a_redelivery_deletes_the_marker_before_the_files(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = declared_snapshots.first(PRODUCTS, DAY, 1, 1, 5)
    first = landing.land(bucket, PRODUCT_FEED, 1, rows)
    deleted: list[str] = []
    delete = Blob.delete
    monkeypatch.setattr(Blob, "delete", lambda blob: deleted.append(blob.name) or delete(blob))
    second = landing.land(bucket, PRODUCT_FEED, 1, rows.slice(0, 5))
    assert (deleted[0], len(deleted)) == ("product_attributes/snapshot_id=1/_SUCCESS", 14)
    assert (first.is_redelivery, second.is_redelivery) == (False, True)
    assert len(list(bucket.client.list_blobs(bucket))) == 2


def test_ids_of_snapshots_are_those_of_the_feeds_own_complete_folders(bucket: Bucket) -> None:
    other = PRODUCT_FEED.model_copy(
        update={"landing": PRODUCT_FEED.landing.model_copy(update={"prefix": "product_attributes_two"})}
    )
    landing.land(bucket, other, 5, declared_snapshots.first(PRODUCTS, DAY, 5, 1, 5))
    landing.land(bucket, PRODUCT_FEED, 1, declared_snapshots.first(PRODUCTS, DAY, 1, 1, 5))
    bucket.blob("product_attributes/snapshot_id=2/date=2026-03-01/part-00000.parquet").upload_from_string(b"cut off")
    bucket.blob("product_attributes/snapshot_id=007/_SUCCESS").upload_from_string(b"")
    assert landing.snapshot_ids(bucket, "product_attributes") == [1]
    assert landing.next_snapshot_id(bucket, "product_attributes") == 3
    with pytest.raises(SystemExit):
        producer.main(["land", "--snapshot-id", "0"])


@pytest.mark.parametrize("feed", ["store_visits", "product_attributes"])
def test_the_next_snapshot_is_not_made_from_a_broken_or_refused_delivery(
    bucket: Bucket, connection: Connection, monkeypatch: pytest.MonkeyPatch, feed: str
) -> None:
    settings = feeds.read(feed)
    table = settings.table.to_contract()
    first = next_snapshot.make(bucket, settings, 1, DAY)
    landing.land(bucket, settings, 1, first)
    key, value = table.keys[-1], table.value_columns[0].name
    position = first.schema.get_field_index(key)
    nulls = pa.nulls(first.num_rows, first.schema.field(key).type)
    landing.land(bucket, settings, 2, first.drop_columns([value]))
    landing.land(bucket, settings, 3, first.set_column(position, pa.field(key, nulls.type), nulls))
    future = landing.land(bucket, settings, 4, next_snapshot.make(bucket, settings, 4, date(2999, 1, 1)))
    refusal = Refusal(future.delivery, "a date too late", datetime.now(UTC))
    Arrivals(ObjectStore(bucket.client, bucket.name), feed).refuse(refusal)
    at_buckets = replace(connection, landing_bucket=bucket.name, state_bucket=bucket.name)
    monkeypatch.setattr(producer, "connect", lambda: at_buckets)
    assert producer.main(["land", "--feed", feed]) == 0
    fifth = landing.read(bucket, settings.landing.prefix, 5, first.schema)
    assert fifth.num_rows == pytest.approx(first.num_rows, rel=0.1)  # and one more day
    assert fifth[key].null_count == 0
    assert max(fifth[table.partition_column].to_pylist()) <= datetime.now(UTC).date()
