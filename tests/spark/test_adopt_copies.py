"""Adoption on Cloud Storage: a rewrite of exactly the frozen generation, its size and checksum compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Blob, Client

from dedup_clone.contract.errors import DeliveryRefused
from dedup_spark import storage
from dedup_spark.storage import cloud
from testkit.local_servers import start_fake_gcs

SOURCE, TARGET = "gs://landing/a/part.parquet", "gs://state/data/part.parquet"


@pytest.fixture
def landed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Blob]:
    with start_fake_gcs(tmp_path / "gcs", "landing", "state") as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{address}")
        cloud.forget_clients()
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]
        client = Client(project="local", credentials=anonymous, client_options={"api_endpoint": f"http://{address}"})
        blob = client.bucket("landing").blob("a/part.parquet")
        blob.upload_from_string(b"hello world")
        blob.reload()
        yield blob
        cloud.forget_clients()


def frozen(blob: Blob) -> storage.FrozenObject:
    return storage.FrozenObject(int(blob.generation), int(blob.size), str(blob.crc32c))


def test_the_frozen_version_is_copied(landed: Blob) -> None:
    storage.copy_frozen(SOURCE, TARGET, frozen(landed))
    with storage.open_input(TARGET) as stream:
        assert bytes(stream.read()) == b"hello world"


def test_another_version_and_another_checksum_are_refused(landed: Blob) -> None:
    expected = frozen(landed)
    with pytest.raises(DeliveryRefused, match=r"\[11, 'yZRlqg=='\], expected generation"):
        storage.copy_frozen(SOURCE, TARGET, storage.FrozenObject(expected.generation, 11, "AAAAAA=="))
    landed.upload_from_string(b"other words")
    with pytest.raises(DeliveryRefused, match="is not as it was when the delivery was noticed"):
        storage.copy_frozen(SOURCE, TARGET, expected)
    landed.delete()
    with pytest.raises(DeliveryRefused, match="it was replaced or deleted"):
        storage.copy_frozen(SOURCE, TARGET, expected)
