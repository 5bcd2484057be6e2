"""Copies on a file system, and objects on Cloud Storage, as the job relies on them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import ServiceUnavailable
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Blob, Client

from dedup_clone.contract.errors import DeliveryRefused
from dedup_spark import storage
from dedup_spark.storage import cloud
from testkit.local_servers import start_fake_gcs
from testkit.lost_answers import losing_answers


def test_a_repeated_copy_replaces_its_target_outlives_its_source_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    root = str(tmp_path)
    source, target = storage.join(root, "a"), storage.join(root, "b/c")
    storage.write_text(source, "één\n")
    storage.write_text(target, "old")
    for _ in range(2):
        storage.copy(source, target)
    assert set(storage.list_objects(root)) == {"a", "b/c"}
    (tmp_path / "a").unlink()
    assert storage.read_text(target) == "één\n"


SOURCE, TARGET = "gs://landing/a.parquet", "gs://state/b.parquet"


@dataclass
class UnavailableOnce:
    """Answers every other request with 503, and the others with the JSON `answers`, in order."""

    answers: list[dict[str, Any]]
    urls: list[str] = field(default_factory=list)
    is_mtls: bool = False

    def request(self, method: str, url: str, **_: Any) -> requests.Response:
        self.urls.append(url)
        response = requests.Response()
        response.request = requests.Request(method, url).prepare()
        response.status_code = 503 if len(self.urls) % 2 else 200
        response.headers["Content-Type"] = "application/json"
        response._content = json.dumps({} if len(self.urls) % 2 else self.answers.pop(0)).encode()
        return response


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def connect(monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any]) -> UnavailableOnce:
    session = UnavailableOnce(list(answers))
    client = Client(project="p", credentials=AnonymousCredentials(), _http=session)  # type: ignore[no-untyped-call]
    monkeypatch.setattr(cloud, "_client", lambda: client)
    return session


def rewritten(**more: Any) -> dict[str, Any]:
    resource = {"name": "b.parquet", "bucket": "state", "size": "3", "crc32c": "c", "generation": "9"}
    return {"totalBytesRewritten": "3", "objectSize": "3", "done": not more, "resource": resource, **more}


def test_copy_of_a_generation_is_repeated_with_its_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large rewrite takes two requests, of which each fails once."""
    session = connect(monkeypatch, rewritten(rewriteToken="t"), rewritten())
    storage.copy_frozen(SOURCE, TARGET, 7, 3, "c")
    assert len(session.urls) == 4
    assert all("ifSourceGenerationMatch=7" in url for url in session.urls)


def test_plain_copy_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    session = connect(monkeypatch, rewritten())
    storage.copy(SOURCE, TARGET)
    assert len(session.urls) == 2


def test_listing_and_lookup_and_deletion_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    session = connect(monkeypatch, {"items": []}, {"name": "a.parquet"}, {})
    assert storage.list_objects("gs://landing/folder") == {}
    assert storage.exists(SOURCE)
    storage.delete(SOURCE)
    assert len(session.urls) == 6


def test_text_that_nobody_must_wait_for_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    session = connect(monkeypatch, {"name": "progress.json"})
    with pytest.raises(ServiceUnavailable):
        storage.replace_text(TARGET, "{}", timeout_s=3.0)
    assert len(session.urls) == 1
    storage.replace_text(TARGET, "{}", timeout_s=3.0)
    assert (len(session.urls), session.answers) == (2, [])


@pytest.mark.parametrize(("stored", "is_own"), [("ours", True), ("another run's", False)])
def test_a_text_that_was_stored_but_answered_with_503_counts_as_written(
    stored: str, is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_fake_gcs(tmp_path, "state") as address:
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]
        options = ClientOptions(api_endpoint=f"http://{address}")
        direct = Client(project="p", credentials=anonymous, client_options=options)
        with losing_answers(direct) as client:
            monkeypatch.setattr(cloud, "_client", lambda: client)
            if not is_own:
                direct.bucket("state").blob("a.json").upload_from_string(stored)
            assert storage.create_text("gs://state/a.json", "ours") == is_own
        assert direct.bucket("state").blob("a.json").download_as_text() == stored


LANDED, ADOPTED = "gs://landing/a/part.parquet", "gs://state/data/part.parquet"


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


def frozen(blob: Blob) -> tuple[int, int, str]:
    return int(blob.generation), int(blob.size), str(blob.crc32c)


def test_the_frozen_version_is_copied(landed: Blob) -> None:
    storage.copy_frozen(LANDED, ADOPTED, *frozen(landed))
    with storage.open_input(ADOPTED) as stream:
        assert bytes(stream.read()) == b"hello world"


def test_another_version_and_another_checksum_are_refused(landed: Blob) -> None:
    expected = frozen(landed)
    with pytest.raises(DeliveryRefused, match=r"\[11, 'yZRlqg=='\], expected generation"):
        storage.copy_frozen(LANDED, ADOPTED, expected[0], 11, "AAAAAA==")
    landed.upload_from_string(b"other words")
    with pytest.raises(DeliveryRefused, match="is not as it was when the delivery was noticed"):
        storage.copy_frozen(LANDED, ADOPTED, *expected)
    landed.delete()
    with pytest.raises(DeliveryRefused, match="it was replaced or deleted"):
        storage.copy_frozen(LANDED, ADOPTED, *expected)
