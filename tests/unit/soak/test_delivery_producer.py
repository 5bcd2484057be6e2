"""The producer of the long runs: snapshots with every kind of row; of many, all files before any marker."""

from __future__ import annotations

from soak.delivery_producer import DeliveryProducer
from soak.small_snapshots import PRODUCTS, small_snapshot, today


def test_a_snapshot_has_every_kind_of_row_and_its_own_id() -> None:
    earlier, later = (small_snapshot(id_, today()).to_pylist() for id_ in (7, 8))
    keys = [{(r["date"], r["product_id"]) for r in rows} for rows in (earlier, later)]
    assert len(keys[0] - keys[1]) == 3  # the product that is missing, on both dates, and the earlier one's own key
    assert len(keys[1] - keys[0]) == 3
    assert {r["update_id"] for r in later} == {8}
    assert len(later) == 2 * (PRODUCTS - 1) + 1


class Bucket:
    """Keeps names in the order in which they were uploaded."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def blob(self, name: str) -> Blob:
        return Blob(self, name)


class Blob:
    generation = 5
    time_created = None

    def __init__(self, bucket: Bucket, name: str) -> None:
        self._bucket = bucket
        self._name = name

    def upload_from_string(self, content: bytes, content_type: str) -> None:
        self._bucket.names.append(self._name)

    def reload(self) -> None: ...


def test_markers_come_after_all_files() -> None:
    bucket = Bucket()
    deliveries = DeliveryProducer(bucket)
    landed = deliveries.land_at_once("feed", 3)
    assert [one.snapshot_id for one in landed] == [1, 2, 3]
    assert all(name.endswith("_SUCCESS") for name in bucket.names[-3:])
    assert not any(name.endswith("_SUCCESS") for name in bucket.names[:-3])
    assert deliveries.land("feed").snapshot_id == 4
    assert len(deliveries.landed["feed"]) == 4
