"""The producer of the soak: its snapshots have new and missing keys, and files are uploaded before markers."""

from __future__ import annotations

from pathlib import Path

from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from soak.delivery_producer import DeliveryProducer
from soak.small_snapshots import PRODUCTS, small_snapshot, today
from testkit.local_servers import start_fake_gcs


def test_consecutive_snapshots_have_new_and_missing_keys_and_their_own_ids() -> None:
    earlier, later = (small_snapshot(id_, today()).to_pylist() for id_ in (7, 8))
    keys = [{(r["date"], r["product_id"]) for r in rows} for rows in (earlier, later)]
    # The product that the later snapshot lacks, on both dates, and the earlier snapshot's own key.
    assert len(keys[0] - keys[1]) == 3
    assert len(keys[1] - keys[0]) == 3
    assert {r["update_id"] for r in later} == {8}
    assert len(later) == 2 * (PRODUCTS - 1) + 1


def test_markers_are_uploaded_after_all_files(tmp_path: Path) -> None:
    with start_fake_gcs(tmp_path, "landing") as address:
        options = ClientOptions(api_endpoint=f"http://{address}")
        bucket = Client(project="p", credentials=AnonymousCredentials(), client_options=options).bucket("landing")
        deliveries = DeliveryProducer(bucket)
        landed = deliveries.land_at_once("feed", 3)
        assert [delivery.snapshot_id for delivery in landed] == [1, 2, 3]
        names = [blob.name for blob in sorted(bucket.list_blobs(), key=lambda blob: blob.generation)]
        assert [name.endswith("_SUCCESS") for name in names] == [False] * 6 + [True] * 3
        assert deliveries.land("feed").snapshot_id == 4
        assert len(deliveries.landed["feed"]) == 4
