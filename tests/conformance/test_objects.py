"""Cloud Storage: preconditions, listings, copies, times."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import PreconditionFailed

from tests.conformance.rules import rule
from tests.conformance.sandbox import Sandbox

PAGE = "Cloud Storage's documentation"
STORE = "plugins/dedup_clone/state/store.py"
NO_OTHER_STORAGE = "Do not replace Cloud Storage by a storage that lacks preconditions."


@rule(PAGE, f"{STORE} plugins/dedup_clone/state/arrivals.py", NO_OTHER_STORAGE)
def test_an_object_is_created_once(sandbox: Sandbox) -> None:
    """A write with if-generation-match=0 is refused when the object exists."""
    blob = sandbox.bucket.blob("absent")
    blob.upload_from_string(b"first", if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        sandbox.bucket.blob("absent").upload_from_string(b"second", if_generation_match=0)
    assert sandbox.bucket.blob("absent").download_as_bytes() == b"first"


@rule(PAGE, f"{STORE} plugins/dedup_clone/state/current.py", NO_OTHER_STORAGE)
def test_an_object_is_replaced_as_it_was_read(sandbox: Sandbox) -> None:
    """A write whose precondition is an old generation of the object is refused."""
    blob = sandbox.bucket.blob("current")
    blob.upload_from_string(b"first")
    read = blob.generation
    sandbox.bucket.blob("current").upload_from_string(b"second", if_generation_match=read)
    with pytest.raises(PreconditionFailed):
        sandbox.bucket.blob("current").upload_from_string(b"third", if_generation_match=read)


@rule(
    PAGE,
    f"{STORE} plugins/dedup_clone/operations/erase.py",
    "Upload no file of keys under a name that an erasure still uses.",
    local="fake-gcs-server deletes without looking at the precondition",
)
def test_an_object_is_deleted_as_it_was_read(sandbox: Sandbox) -> None:
    """A deletion whose precondition is an old generation of the object is refused."""
    blob = sandbox.bucket.blob("keys")
    blob.upload_from_string(b"first")
    read = blob.generation
    sandbox.bucket.blob("keys").upload_from_string(b"second")
    with pytest.raises(PreconditionFailed):
        sandbox.bucket.blob("keys").delete(if_generation_match=read)


@rule(PAGE, "plugins/dedup_clone/state/landing.py", "Write the marker some minutes after the last data file.")
def test_a_listing_is_up_to_date(sandbox: Sandbox) -> None:
    """A listing right after a write or a deletion is up to date."""

    def listed() -> int:
        return len(list(sandbox.bucket.list_blobs(prefix="listing/")))

    for number in range(20):
        sandbox.bucket.blob(f"listing/{number:02}").upload_from_string(b"x")
        assert listed() == number + 1
    for blob in list(sandbox.bucket.list_blobs(prefix="listing/")):
        blob.delete()
    assert listed() == 0


@rule(
    PAGE,
    f"{STORE} spark_jobs/dedup_spark/plans/date_files.py",
    "Put landing and state into one location and storage class, or replay with plan `rewrite`.",
)
def test_the_server_copies_an_object(sandbox: Sandbox) -> None:
    """One rewrite call within a location copies an object of 8 MiB and its checksum on the server."""
    source, copy = sandbox.bucket.blob("source"), sandbox.bucket.blob("copy")
    source.upload_from_string(b"0123456789abcdef" * 524_288)
    token, rewritten, total = copy.rewrite(source)
    assert (token, rewritten) == (None, total)
    source.reload()
    copy.reload()
    assert copy.crc32c == source.crc32c


@rule(
    PAGE,
    "plugins/dedup_clone/state/landing.py plugins/dedup_clone/state/arrivals.py",
    "Write each marker once, and a repeated delivery under another snapshot id.",
)
def test_each_write_has_its_own_time(sandbox: Sandbox) -> None:
    """Each generation of an object has its own timeCreated: the server's time of the write."""
    writes = []
    for _ in range(2):
        blob = sandbox.bucket.blob("_SUCCESS")
        blob.upload_from_string(b"")
        writes.append((int(blob.generation), blob.time_created))
    assert writes[0][0] < writes[1][0]
    assert writes[0][1] <= writes[1][1]
