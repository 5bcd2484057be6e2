"""Assumptions about Cloud Storage: preconditions, listings, copies."""

from __future__ import annotations

from google.api_core.exceptions import PreconditionFailed

from deploy.probe.assumption import DoesNotHold, Register, expect
from deploy.probe.probe_dataset import ProbeDataset

assumption = Register()


@assumption(
    "create-if-absent",
    statement="A write with if-generation-match=0 is refused when the object exists",
    rule="Each delivery is registered once, whoever notices it.",
)
def create_if_absent(probe: ProbeDataset) -> str:
    """Writes the same name twice under that precondition."""
    probe.bucket.blob("absent").upload_from_string(b"first", if_generation_match=0)
    try:
        probe.bucket.blob("absent").upload_from_string(b"second", if_generation_match=0)
    except PreconditionFailed:
        expect("content", probe.bucket.blob("absent").download_as_bytes(), b"first")
        return "412, and the first content stayed."
    raise DoesNotHold("The second write was taken.")


@assumption(
    "replace-as-read",
    statement="A write with an old generation as its precondition is refused",
    rule="CURRENT and STAGING change only as they were read.",
)
def replace_as_read(probe: ProbeDataset) -> str:
    """Replaces an object, then again with the generation that was read before."""
    blob = probe.bucket.blob("current")
    blob.upload_from_string(b"first", if_generation_match=0)
    read = blob.generation
    probe.bucket.blob("current").upload_from_string(b"second", if_generation_match=read)
    try:
        probe.bucket.blob("current").upload_from_string(b"third", if_generation_match=read)
    except PreconditionFailed:
        return "412 for the generation that was read before."
    raise DoesNotHold("A write with an old generation was taken.")


@assumption(
    "delete-as-read",
    statement="A deletion with an old generation as its precondition is refused",
    rule="An incident record that was written again meanwhile is not deleted.",
)
def delete_as_read(probe: ProbeDataset) -> str:
    """Replaces an object, then deletes it with the generation from before."""
    blob = probe.bucket.blob("incident")
    blob.upload_from_string(b"first")
    read = blob.generation
    probe.bucket.blob("incident").upload_from_string(b"second")
    try:
        probe.bucket.blob("incident").delete(if_generation_match=read)
    except PreconditionFailed:
        return "412, and the object stayed."
    raise DoesNotHold("A deletion with an old generation was carried out.")


@assumption(
    "listing-is-consistent",
    statement="A listing right after a write or deletion shows it",
    rule="The inventory that is frozen when a marker is seen is complete.",
)
def listing_is_consistent(probe: ProbeDataset) -> str:
    """Lists after each of twenty writes and after their deletion."""
    for number in range(20):
        probe.bucket.blob(f"listing/{number:02}").upload_from_string(b"x")
        expect("objects listed", len(list(probe.bucket.list_blobs(prefix="listing/"))), number + 1)
    for blob in list(probe.bucket.list_blobs(prefix="listing/")):
        blob.delete()
    expect("objects listed after deletion", len(list(probe.bucket.list_blobs(prefix="listing/"))), 0)
    return "Twenty of twenty, and none after deletion."


@assumption(
    "copy-on-the-server",
    statement="A rewrite within the location copies an object, checksum too, by one call and without its bytes",
    rule="A snapshot's files are adopted by copies, whatever their size.",
)
def copy_on_the_server(probe: ProbeDataset) -> str:
    """Rewrites an object of 8 MiB under another name."""
    source = probe.bucket.blob("source")
    source.upload_from_string(b"0123456789abcdef" * 524_288)
    copy = probe.bucket.blob("copy")
    token, rewritten, total = copy.rewrite(source)
    expect("bytes copied by the first call", (token, rewritten), (None, total))
    source.reload()
    copy.reload()
    expect("checksum", copy.crc32c, source.crc32c)
    return f"{total} bytes by one call; checksums are equal."


@assumption(
    "marker-time-is-arrival",
    statement="timeCreated is the server's time of the write and changes with each generation",
    rule="The arrival is the marker's creation; a marker written again is a new delivery.",
)
def marker_time_is_arrival(probe: ProbeDataset) -> str:
    """Writes one name twice and compares times and generations."""
    blob = probe.bucket.blob("_SUCCESS")
    blob.upload_from_string(b"")
    first = (blob.generation, blob.time_created)
    again = probe.bucket.blob("_SUCCESS")
    again.upload_from_string(b"")
    if int(again.generation) <= int(first[0]) or again.time_created < first[1]:
        raise DoesNotHold(f"First [{first}], then [{(again.generation, again.time_created)}]: not increasing.")
    return "The second write has a higher generation and a later time."
