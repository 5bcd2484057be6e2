"""Landing in a real object store."""

import io
from datetime import date

import pyarrow.parquet as pq
import pytest
from google.cloud.storage import Blob, Bucket

from devstack.producer import landing, next_snapshot, realistic_snapshots
from devstack.producer.__main__ import main
from devstack.producer.demo_feeds import EXAMPLE_FEED, REALISTIC_FEED, SCHEMA
from devstack.producer.feeds import LandingLayout

DAY = date(2026, 3, 1)


def names(bucket: Bucket) -> list[str]:
    return [blob.name for blob in bucket.client.list_blobs(bucket)]


def test_delivery_follows_the_data_contract(bucket: Bucket) -> None:
    landed = landing.land(bucket, "feed", 7, realistic_snapshots.first(DAY, 7, 1, 20))
    folders = [name.split("/") for name in names(bucket) if not name.endswith("_SUCCESS")]
    assert len(folders) == landed.date_count == 13
    assert all(parts[:2] == ["feed", "snapshot_id=7"] for parts in folders)
    assert folders[-1][2] == "date=2026-03-01"
    blob = bucket.blob("/".join(folders[-1]))
    table = pq.ParquetFile(io.BytesIO(blob.download_as_bytes())).read()
    assert table.schema.equals(SCHEMA)
    assert set(table["date"].to_pylist()) == {DAY}


def test_marker_arrives_after_every_file(bucket: Bucket) -> None:
    landed = landing.land(bucket, "feed", 1, realistic_snapshots.first(DAY, 1, 1, 5))
    blobs = list(bucket.client.list_blobs(bucket))
    marker = next(blob for blob in blobs if blob.name.endswith("_SUCCESS"))
    assert all(blob.time_created <= marker.time_created for blob in blobs)
    assert (landed.marker_generation, landed.arrived_at) == (marker.generation, marker.time_created)


@pytest.mark.parametrize("snapshot_id", ["0", str(2**63)])
def test_the_command_refuses_ids_outside_its_range(snapshot_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["land", "--snapshot-id", snapshot_id])
    assert f"found [{snapshot_id}], expected 1 to 9223372036854775807" in capsys.readouterr().err


def test_landed_rows_read_back_equal(bucket: Bucket) -> None:
    table = realistic_snapshots.first(DAY, 1, 1, 20)
    landing.land(bucket, "feed", 1, table)
    order = [(name, "ascending") for name in SCHEMA.names]
    assert landing.read(bucket, "feed", 1).sort_by(order).equals(table.sort_by(order))


def test_redelivery_is_a_new_marker_without_leftovers(bucket: Bucket) -> None:
    first = landing.land(bucket, "feed", 1, realistic_snapshots.first(DAY, 1, 1, 5))
    second = landing.land(bucket, "feed", 1, realistic_snapshots.first(DAY, 1, 1, 5).slice(0, 5))
    assert (first.is_redelivery, second.is_redelivery) == (False, True)
    assert second.marker_generation != first.marker_generation
    assert len(names(bucket)) == 2


def test_the_marker_of_an_earlier_delivery_is_deleted_before_its_files(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, rows = LandingLayout("feed", marker="ready"), realistic_snapshots.first(DAY, 1, 1, 5)
    landing.land(bucket, "feed", 1, rows, layout)
    deleted: list[str] = []
    delete = Blob.delete
    monkeypatch.setattr(Blob, "delete", lambda blob: deleted.append(blob.name) or delete(blob))
    landing.land(bucket, "feed", 1, rows, layout)
    assert (deleted[0], len(deleted)) == ("feed/snapshot_id=1/ready", 14)


def test_folder_without_marker_is_not_a_snapshot_but_its_id_is_used_up(bucket: Bucket) -> None:
    landing.land(bucket, "feed", 1, realistic_snapshots.first(DAY, 1, 1, 5))
    bucket.blob("feed/snapshot_id=2/date=2026-03-01/part-00000.parquet").upload_from_string(b"cut off")
    assert landing.snapshot_ids(bucket, "feed") == [1]
    assert landing.next_snapshot_id(bucket, "feed") == 3


def test_folder_whose_number_has_leading_zeros_is_no_snapshot(bucket: Bucket) -> None:
    bucket.blob("feed/snapshot_id=007/_SUCCESS").upload_from_string(b"")
    bucket.blob("feed/snapshot_id=0/_SUCCESS").upload_from_string(b"")
    assert landing.snapshot_ids(bucket, "feed") == [0]
    assert landing.next_snapshot_id(bucket, "feed") == 1


def test_ids_of_a_feed_are_not_those_of_another(bucket: Bucket) -> None:
    landing.land(bucket, "feed_two", 5, realistic_snapshots.first(DAY, 5, 1, 5))
    assert landing.next_snapshot_id(bucket, "feed") == 1


@pytest.mark.parametrize("feed", [REALISTIC_FEED, EXAMPLE_FEED])
def test_next_snapshot_is_derived_from_the_newest_below_its_id(
    bucket: Bucket, feed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realistic_snapshots, "DATES", 2)
    for snapshot_id in (1, 5):
        landing.land(bucket, feed, snapshot_id, next_snapshot.make(bucket, feed, snapshot_id, DAY))
    late = next_snapshot.make(bucket, feed, 3, DAY)
    landing.land(bucket, feed, 3, late)
    assert next_snapshot.make(bucket, feed, 3, DAY).equals(late)
    first = {tuple(row.values())[:-1] for row in landing.read(bucket, feed, 1).to_pylist()}
    third = {tuple(row.values())[:-1] for row in late.to_pylist()}
    assert len(first & third) > 0
