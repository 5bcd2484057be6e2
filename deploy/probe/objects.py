"""Assumptions about Cloud Storage: preconditions, listings, copies."""

from __future__ import annotations

from google.api_core.exceptions import PreconditionFailed

from deploy.probe.assumption import DoesNotHold, Register, expect
from deploy.probe.probe_dataset import ProbeDataset

assumption = Register()


@assumption(
    "create-if-absent",
    statement="A write with if-generation-match=0 is refused when the object exists",
    rule="Each delivery is registered once, even if two processes notice it.",
    code=("plugins/dedup_clone/state/store.py", "plugins/dedup_clone/state/arrivals.py"),
    instead="Do not replace Cloud Storage by a storage that lacks preconditions.",
)
def create_if_absent(probe: ProbeDataset) -> str:
    """Writes one object twice with if-generation-match=0."""
    probe.bucket.blob("absent").upload_from_string(b"first", if_generation_match=0)
    try:
        probe.bucket.blob("absent").upload_from_string(b"second", if_generation_match=0)
    except PreconditionFailed:
        expect("content", probe.bucket.blob("absent").download_as_bytes(), b"first")
        return "The second write was refused with 412, and the object has the first content."
    raise DoesNotHold("The second write was accepted.")


@assumption(
    "replace-as-read",
    statement="A write whose precondition is an old generation of the object is refused",
    rule="CURRENT and STAGING are replaced only if they have not changed since they were read.",
    code=("plugins/dedup_clone/state/store.py", "plugins/dedup_clone/state/current.py"),
    instead="Do not replace Cloud Storage by a storage that lacks preconditions.",
)
def replace_as_read(probe: ProbeDataset) -> str:
    """Replaces an object, and then tries to replace it once more with the first generation as precondition."""
    blob = probe.bucket.blob("current")
    blob.upload_from_string(b"first", if_generation_match=0)
    read = blob.generation
    probe.bucket.blob("current").upload_from_string(b"second", if_generation_match=read)
    try:
        probe.bucket.blob("current").upload_from_string(b"third", if_generation_match=read)
    except PreconditionFailed:
        return "The write with the first generation was refused with 412."
    raise DoesNotHold("A write with an old generation was accepted.")


@assumption(
    "delete-as-read",
    statement="A deletion whose precondition is an old generation of the object is refused",
    rule="An incident record is deleted only if it has not changed since it was read.",
    code=("plugins/dedup_clone/state/store.py", "plugins/dedup_clone/freshness/incident_records.py"),
    instead="Run the watchdog of a feed in one Airflow environment only.",
)
def delete_as_read(probe: ProbeDataset) -> str:
    """Replaces an object, and then tries to delete it with the first generation as precondition."""
    blob = probe.bucket.blob("incident")
    blob.upload_from_string(b"first")
    read = blob.generation
    probe.bucket.blob("incident").upload_from_string(b"second")
    try:
        probe.bucket.blob("incident").delete(if_generation_match=read)
    except PreconditionFailed:
        return "The deletion was refused with 412, and the object still exists."
    raise DoesNotHold("A deletion with an old generation was carried out.")


@assumption(
    "listing-is-consistent",
    statement="A listing right after a write or a deletion is up to date",
    rule="The inventory that is frozen when a marker is seen is complete.",
    code=("plugins/dedup_clone/state/landing.py",),
    instead="Write the marker some minutes after the last data file.",
)
def listing_is_consistent(probe: ProbeDataset) -> str:
    """Lists the objects after each of twenty writes, and after all twenty are deleted."""
    for number in range(20):
        probe.bucket.blob(f"listing/{number:02}").upload_from_string(b"x")
        expect("objects listed", len(list(probe.bucket.list_blobs(prefix="listing/"))), number + 1)
    for blob in list(probe.bucket.list_blobs(prefix="listing/")):
        blob.delete()
    expect("objects listed after deletion", len(list(probe.bucket.list_blobs(prefix="listing/"))), 0)
    return "Every listing had all objects written so far; after the deletions it was empty."


@assumption(
    "copy-on-the-server",
    statement="One rewrite call within a location copies an object and its checksum on the server (tried with 8 MiB)",
    rule="Plan adopt copies a delivery's files; their bytes do not pass through the client.",
    code=("plugins/dedup_clone/state/store.py", "spark_jobs/dedup_spark/plans/adopt"),
    instead="Put landing and state into one location and storage class, or replay with plan `rewrite`.",
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
    return f"One call copied {total} bytes, and the checksums are equal."


@assumption(
    "marker-time-is-arrival",
    statement="Each generation of an object has its own timeCreated: the server's time of the write",
    rule="The arrival is the time when the marker was created; a marker that is written again is a new delivery.",
    code=("plugins/dedup_clone/state/landing.py", "plugins/dedup_clone/state/arrivals.py"),
    instead="Write each marker once, and a repeated delivery under another snapshot id.",
)
def marker_time_is_arrival(probe: ProbeDataset) -> str:
    """Writes one object twice and compares times and generations."""
    blob = probe.bucket.blob("_SUCCESS")
    blob.upload_from_string(b"")
    first = (blob.generation, blob.time_created)
    again = probe.bucket.blob("_SUCCESS")
    again.upload_from_string(b"")
    if int(again.generation) <= int(first[0]) or again.time_created < first[1]:
        raise DoesNotHold(f"First [{first}], then [{(again.generation, again.time_created)}]: not increasing.")
    return "The second write has a higher generation, and its time is not earlier."
