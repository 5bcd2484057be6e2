"""The producer of the soak: its snapshots have new and missing keys, and files are uploaded before markers."""

from __future__ import annotations

from soak.delivery_producer import DeliveryProducer
from soak.small_snapshots import PRODUCTS, small_snapshot, today


def test_consecutive_snapshots_have_new_and_missing_keys_and_their_own_ids() -> None:
    earlier, later = (small_snapshot(id_, today()).to_pylist() for id_ in (7, 8))
    keys = [{(r["date"], r["product_id"]) for r in rows} for rows in (earlier, later)]
    # The product that the later snapshot lacks, on both dates, and the earlier snapshot's own key.
    assert len(keys[0] - keys[1]) == 3
    assert len(keys[1] - keys[0]) == 3
    assert {r["update_id"] for r in later} == {8}
    assert len(later) == 2 * (PRODUCTS - 1) + 1


class FakeBucket:
    """A GCS bucket that records the names of uploaded objects in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def blob(self, name: str) -> FakeBlob:
        return FakeBlob(self, name)


class FakeBlob:
    generation = 5
    time_created = None

    def __init__(self, bucket: FakeBucket, name: str) -> None:
        self._bucket = bucket
        self._name = name

    def upload_from_string(self, content: bytes, content_type: str) -> None:
        self._bucket.names.append(self._name)

    def reload(self) -> None: ...


def test_markers_are_uploaded_after_all_files() -> None:
    bucket = FakeBucket()
    deliveries = DeliveryProducer(bucket)
    landed = deliveries.land_at_once("feed", 3)
    assert [delivery.snapshot_id for delivery in landed] == [1, 2, 3]
    assert all(name.endswith("_SUCCESS") for name in bucket.names[-3:])
    assert not any(name.endswith("_SUCCESS") for name in bucket.names[:-3])
    assert deliveries.land("feed").snapshot_id == 4
    assert len(deliveries.landed["feed"]) == 4
