import threading
from collections.abc import Iterator

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from devstack.http_calls import call
from devstack.stack import gcloud_proxy
from devstack.stack.ports import any_free_port


@pytest.fixture
def door(storage_url: str) -> Iterator[str]:
    port = any_free_port()
    with gcloud_proxy.serve(port, storage_url) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{port}"
        server.shutdown()
        thread.join()


def client(url: str) -> storage.Client:
    return storage.Client("local-dev", AnonymousCredentials(), client_options={"api_endpoint": url})


def test_layout_question_is_answered_as_a_bucket_without_folders(door: str) -> None:
    answer = call("GET", f"{door}/storage/v1/b/landing/storageLayout?alt=json")
    assert answer.status == 200
    assert answer.json()["hierarchicalNamespace"] == {"enabled": False}
    assert answer.json()["bucket"] == "landing"


@pytest.mark.parametrize("size", [0, 3, 9 * 1024 * 1024], ids=["empty", "small", "resumable"])
def test_content_passes_through_unchanged(door: str, storage_url: str, size: int) -> None:
    content = bytes(index % 251 for index in range(size))
    bucket = client(door).create_bucket(f"door-{size}")
    bucket.blob("a/b=1/x").upload_from_string(content)
    assert client(storage_url).bucket(bucket.name).blob("a/b=1/x").download_as_bytes() == content
    assert bucket.blob("a/b=1/x").download_as_bytes() == content
    assert [blob.name for blob in client(door).list_blobs(bucket, prefix="a/")] == ["a/b=1/x"]


def test_a_deletion_is_answered_as_cloud_storage_does(door: str, storage_url: str) -> None:
    bucket = client(storage_url).create_bucket("door-deletion")
    bucket.blob("x").upload_from_string(b"x")
    answer = call("DELETE", f"{door}/storage/v1/b/door-deletion/o/x")
    assert (answer.status, answer.text) == (204, "")
    assert not bucket.blob("x").exists()
    assert call("DELETE", f"{door}/storage/v1/b/door-deletion/o/x").status == 404


def test_errors_of_the_storage_pass_through(door: str) -> None:
    assert call("GET", f"{door}/storage/v1/b/no-such-bucket").status == 404


def test_storage_that_is_down_gives_a_502_that_says_so() -> None:
    port = any_free_port()
    with gcloud_proxy.serve(port, f"http://127.0.0.1:{any_free_port()}") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        answer = call("GET", f"http://127.0.0.1:{port}/storage/v1/b")
        server.shutdown()
        thread.join()
    assert answer.status == 502
    assert "does not answer" in answer.text
