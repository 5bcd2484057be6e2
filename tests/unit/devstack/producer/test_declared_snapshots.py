"""Snapshots of feeds that the producer knows by their files alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from google.cloud.storage import Bucket

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.state.arrivals import Arrivals, Refusal
from dedup_clone.state.store import ObjectStore
from dedup_spark.column_types import SCALARS, arrow_schema
from devstack.connection import Connection
from devstack.producer import __main__ as producer
from devstack.producer import declared_snapshots, feeds, landing, next_snapshot
from devstack.producer.demo_feeds import EXAMPLE_FEED, REALISTIC_FEED

DAY = date(2026, 3, 1)
SEED = 7
VISITS = feeds.table_of(feeds.read("store_visits"))


def keys(table: TableContract, rows: pa.Table) -> dict[tuple[object, ...], str]:
    """Key -> values."""
    names = [c.name for c in table.value_columns]
    return {tuple(row[k] for k in table.keys): repr([row[n] for n in names]) for row in rows.to_pylist()}


def test_every_feed_file_is_known() -> None:
    assert feeds.feed_names() == [REALISTIC_FEED, "store_visits", EXAMPLE_FEED]


def test_same_arguments_give_the_same_rows_and_another_seed_others() -> None:
    first = declared_snapshots.first(VISITS, DAY, 1, SEED, 50)
    assert first.equals(declared_snapshots.first(VISITS, DAY, 1, SEED, 50))
    assert not first.equals(declared_snapshots.first(VISITS, DAY, 1, SEED + 1, 50))
    second = declared_snapshots.following(VISITS, first, DAY, 2, SEED)[0]
    assert second.equals(declared_snapshots.following(VISITS, first, DAY, 2, SEED)[0])


def test_first_snapshot_has_the_declared_schema_unique_keys_and_values_of_every_kind() -> None:
    rows = declared_snapshots.first(VISITS, DAY, 5, SEED, 200)
    rows.validate(full=True)
    assert rows.schema.equals(arrow_schema(VISITS.columns))
    assert len(keys(VISITS, rows)) == rows.num_rows == 13 * 200
    assert pc.unique(rows["snapshot_no"]).to_pylist() == [5]
    assert {len(baskets) for baskets in rows["baskets"].to_pylist()} == {0, 1, 2, 3}
    assert 0 < rows["revenue"].null_count < rows.num_rows / 10
    assert rows["store_code"].null_count == 0


def test_next_snapshot_differs_in_a_thousandth_in_all_three_kinds() -> None:
    first = declared_snapshots.first(VISITS, DAY, 1, SEED)
    rows, said = declared_snapshots.following(VISITS, first, DAY, 2, SEED)
    before, after = keys(VISITS, first), keys(VISITS, rows)
    assert len(after) == rows.num_rows
    changed = sum(before[key] != value for key, value in after.items() if key in before)
    assert (changed, len(after.keys() - before.keys()), len(before.keys() - after.keys())) == (7, 3, 3)
    assert (said.changed, said.new, said.missing) == (7, 3, 3)
    assert pc.unique(rows["snapshot_no"]).to_pylist() == [2]


def test_next_snapshot_on_a_later_day_adds_it_and_drops_what_is_past_retention() -> None:
    first = declared_snapshots.first(VISITS, DAY, 1, SEED, 20)
    later = DAY + timedelta(days=VISITS.retention_days - 3)
    rows, _ = declared_snapshots.following(VISITS, first, later, 2, SEED, 20)
    dates = set(pc.unique(rows["visited_on"]).to_pylist())
    assert dates == {DAY - timedelta(days=back) for back in range(3)} | {later}


@pytest.mark.parametrize("kind", sorted(name for name, scalar in SCALARS.items() if scalar.may_be_key))
def test_table_with_keys_and_values_of_each_type_can_be_made(kind: str) -> None:
    columns = (
        Column("d", "DATE"),
        Column("k", kind, ColumnMode.REQUIRED),
        Column("v", kind),
        Column("many", kind, ColumnMode.REPEATED),
        Column("nested", "STRUCT", fields=(Column("x", kind), Column("y", "DATETIME"), Column("z", "FLOAT64"))),
        Column("id", "INT64"),
    )
    table = TableContract(columns, "d", "id", ("d", "k"), (), 30)
    first = declared_snapshots.first(table, DAY, 1, SEED, 30)
    rows, _ = declared_snapshots.following(table, first, DAY, 2, SEED, 30)
    for made in (first, rows):
        made.validate(full=True)
        assert made.schema.equals(arrow_schema(columns))
        assert len(keys(table, made)) == made.num_rows


@pytest.mark.parametrize("days_later", [0, 1, 2, 20])
def test_table_whose_rows_cannot_be_numbered_gets_no_second_row_of_a_date(days_later: int) -> None:
    columns = (Column("d", "DATE"), Column("v", "INT64"), Column("id", "INT64"))
    table = TableContract(columns, "d", "id", ("d",), (), 3)
    first = declared_snapshots.first(table, DAY, 1, SEED)
    rows, said = declared_snapshots.following(table, first, DAY + timedelta(days=days_later), 2, SEED)
    before, after = keys(table, first), keys(table, rows)
    assert len(after) == rows.num_rows > 0
    assert said.new == len(after.keys() - before.keys())


def test_delivery_lies_as_the_feed_file_says_and_the_next_one_is_made_from_it(bucket: Bucket) -> None:
    layout = feeds.landing_layout(feeds.read("store_visits"))
    first = next_snapshot.make(bucket, "store_visits", 3, DAY)
    landed = landing.land(bucket, "store_visits", 3, first, layout)
    names = [blob.name.removeprefix("stores/visits/snapshot_id=3/") for blob in bucket.client.list_blobs(bucket)]
    assert names == ["_COMPLETE", *(f"part-0000{n}.parquet" for n in range(4))]
    assert (landed.row_count, landed.date_count, landed.is_redelivery) == (13_000, 13, False)
    assert landing.next_snapshot_id(bucket, layout.prefix) == 4
    second = next_snapshot.make(bucket, "store_visits", 4, DAY)
    same = set(map(repr, first.drop_columns(["snapshot_no"]).to_pylist()))
    assert sum(repr(row) in same for row in second.drop_columns(["snapshot_no"]).to_pylist()) == 13_000 - 10
    assert landing.land(bucket, "store_visits", 3, first, layout).is_redelivery


@pytest.mark.parametrize("feed", ["store_visits", REALISTIC_FEED])
def test_the_next_snapshot_is_not_made_from_a_broken_or_refused_delivery(
    bucket: Bucket, connection: Connection, monkeypatch: pytest.MonkeyPatch, feed: str
) -> None:
    settings = feeds.read(feed)
    layout, table = feeds.landing_layout(settings), feeds.table_of(settings)
    first = next_snapshot.make(bucket, feed, 1, DAY)
    landing.land(bucket, feed, 1, first, layout)
    key, value = table.keys[-1], table.value_columns[0].name
    position = first.schema.get_field_index(key)
    nulls = pa.nulls(first.num_rows, first.schema.field(key).type)
    landing.land(bucket, feed, 2, first.drop_columns([value]), layout)
    landing.land(bucket, feed, 3, first.set_column(position, pa.field(key, nulls.type), nulls), layout)
    future = landing.land(bucket, feed, 4, next_snapshot.make(bucket, feed, 4, date(2999, 1, 1)), layout)
    refusal = Refusal(Delivery(4, future.marker_generation), "a date too late", "run", datetime.now(UTC))
    Arrivals(ObjectStore(bucket.client, bucket.name), feed).refuse(refusal)
    at_buckets = replace(connection, landing_bucket=bucket.name, state_bucket=bucket.name)
    monkeypatch.setattr(producer, "connect", lambda: at_buckets)
    assert producer.main(["land", "--feed", feed]) == 0
    fifth = landing.read(bucket, layout.prefix, 5, first.schema)
    assert fifth.num_rows == pytest.approx(first.num_rows, rel=0.1)  # and one more day
    assert fifth[key].null_count == 0
    assert max(fifth[layout.date_column].to_pylist()) <= datetime.now(UTC).date()
