"""Reads and writes objects of a GCS bucket. `replace` requires the object generation that was read."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, TypeVar, cast

from dedup_clone.contract.errors import ContractViolation, LostRace
from dedup_clone.contract.records import from_json, to_json

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

_LOGGER = logging.getLogger("dedup_clone")
_PARALLEL_REQUESTS = 10  # the size of the client's connection pool
_WRITE_TRIES = 5
_READ_CHUNK_BYTES = 256 * 1024
_NONCURRENT_DAYS = "daysSinceNoncurrentTime"
_WRITE_ID = "dedup_clone_write"
T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True)
class StoredText:
    """An object's text and its object generation, which a later `replace` requires.

    Bytes that are not UTF-8 become surrogates in the text, so that `from_json` refuses a damaged record.
    """

    text: str
    object_generation: int


@dataclass(frozen=True)
class ObjectInfo:
    """One object as listed. `size` in bytes; `created_at` is when this object generation was written."""

    name: str
    object_generation: int
    crc32c: str
    size: int
    created_at: datetime


class ObjectStore:
    """One GCS bucket. Names are object names in the bucket, without its gs:// URI."""

    def __init__(self, client: Client, bucket: str) -> None:
        self._bucket = client.bucket(bucket)
        self.bucket = bucket

    def uri(self, name: str) -> str:
        """The gs:// URI of the object."""
        return f"gs://{self.bucket}/{name}"

    def read(self, name: str) -> StoredText | None:
        """The object's text; None when it is absent."""
        from google.api_core.exceptions import NotFound

        blob = self._bucket.blob(name)
        try:
            return StoredText(_decode(blob.download_as_bytes()), int(blob.generation))
        except NotFound:
            return None

    def read_record(self, kind: type[T], name: str) -> T | None:
        """The object as a record of type `kind`; None if absent. Raises ContractViolation if it is damaged."""
        stored = self.read(name)
        return None if stored is None else from_json(kind, stored.text, where=self.uri(name))

    def read_records(self, kind: type[T], names: Sequence[str]) -> list[T]:
        """The records of those `names` that exist, in order, read in parallel. Raises ContractViolation."""
        found = in_parallel(lambda name: self.read_record(kind, name), names)
        return [record for record in found if record is not None]

    def read_reports(self, kind: type[T], names: Sequence[str]) -> list[T]:
        """As `read_records`, but damaged records are logged and left out: what only reports must stop no publish."""

        def read(name: str) -> T | None:
            try:
                return self.read_record(kind, name)
            except ContractViolation as error:
                _LOGGER.warning("left out: %s", error)
                return None

        return [record for record in in_parallel(read, names) if record is not None]

    def open(self, name: str, *, chunk_bytes: int = _READ_CHUNK_BYTES) -> IO[bytes]:
        """A seekable stream that fetches chunks of `chunk_bytes` on demand. Raises NotFound if the object is absent."""
        return cast("IO[bytes]", self._bucket.blob(name).open("rb", chunk_size=chunk_bytes))

    def create(self, name: str, text: str) -> bool:
        """Write a new object. If the object exists already, write nothing and return False."""
        from google.api_core.exceptions import PreconditionFailed

        try:
            self._upload(name, text, expected_object_generation=0)
        except PreconditionFailed:
            return False
        return True

    def replace(self, name: str, text: str, *, expected_object_generation: int) -> int:
        """Replace the object and return its new object generation.

        Raises LostRace unless the stored object generation equals the expected one; 0 means that the object is absent.
        """
        from google.api_core.exceptions import PreconditionFailed

        try:
            return self._upload(name, text, expected_object_generation=expected_object_generation)
        except PreconditionFailed as error:
            raise LostRace(
                f"[{self.uri(name)}] changed since it was read as object generation [{expected_object_generation}]: "
                f"another run wrote it. Retry the task: it reads again and decides anew."
            ) from error

    def put(self, name: str, text: str) -> None:
        """Write an object unconditionally: the last writer wins."""
        self._upload(name, text, expected_object_generation=None)

    def change_record(self, kind: type[T], name: str, change: Callable[[T | None], T | None]) -> None:
        """Replace a record by what `change` returns of it, unless that is None. `change` gets None if it is absent.

        If another process writes the object meanwhile, `change` is called again; the fifth time LostRace is raised.
        Raises ContractViolation if the record is damaged.
        """
        for tries_left in reversed(range(_WRITE_TRIES)):
            stored = self.read(name)
            changed = change(None if stored is None else from_json(kind, stored.text, where=self.uri(name)))
            if changed is None:
                return
            found = 0 if stored is None else stored.object_generation
            try:
                self.replace(name, to_json(changed), expected_object_generation=found)
                return
            except LostRace:
                if not tries_left:
                    raise

    def copy_from(self, source_store: ObjectStore, source: ObjectInfo, name: str) -> None:
        """Copy an object of another bucket to the object `name` of this bucket, inside Cloud Storage.

        Raises PreconditionFailed if the object's generation is no longer that of `source`.
        """
        from google.cloud.storage.retry import DEFAULT_RETRY

        source_blob, copy, token = source_store._bucket.blob(source.name), self._bucket.blob(name), None
        while True:
            token, _, _ = copy.rewrite(
                source_blob, token, if_source_generation_match=source.object_generation, retry=DEFAULT_RETRY
            )
            if not token:
                return

    def objects(self, prefix: str, *, first: str = "") -> Iterator[ObjectInfo]:
        """All objects whose names begin with `prefix`, in the order of names, from the name `first` on."""
        for blob in self._bucket.list_blobs(prefix=prefix, start_offset=first or None):
            yield _info(blob)

    def folders(self, prefix: str) -> list[str]:
        """The folders directly below `prefix` (which ends in a slash), each ending in a slash."""
        listing = self._bucket.list_blobs(prefix=prefix, delimiter="/", fields="prefixes,nextPageToken")
        for _ in listing:  # the prefixes are known only after all pages were read
            pass
        return sorted(listing.prefixes)

    def stat(self, names: list[str]) -> list[ObjectInfo]:
        """Those of the named objects that exist, requested in parallel."""
        return [_info(blob) for blob in in_parallel(self._bucket.get_blob, names) if blob is not None]

    def versions_end(self, deleted_at: datetime) -> datetime | None:
        """When Cloud Storage removes the last version of an object deleted at `deleted_at`; None if it never does."""
        bucket, end = self._bucket, deleted_at
        bucket.reload()
        if bucket.versioning_enabled:
            deleting = [rule["condition"] for rule in bucket.lifecycle_rules if rule["action"]["type"] == "Delete"]
            # A rule with other conditions is ignored: they may limit it to some objects, or to later times.
            days = [int(c[_NONCURRENT_DAYS]) for c in deleting if set(c) - {"isLive"} == {_NONCURRENT_DAYS}]
            if not days:
                return None
            end += timedelta(days=min(days))
        return end + timedelta(seconds=int(bucket.soft_delete_policy.retention_duration_seconds or 0))

    def delete(self, name: str, *, expected_object_generation: int) -> bool:
        """Delete the object unless it changed. Returns False if it changed, True if it is gone, whoever deleted it."""
        from google.api_core.exceptions import NotFound, PreconditionFailed

        try:
            with contextlib.suppress(NotFound):
                self._bucket.blob(name).delete(if_generation_match=expected_object_generation)
        except PreconditionFailed:
            return False
        return True

    def delete_prefix(self, prefix: str) -> int:
        """Delete all objects whose names begin with `prefix`, and return their number."""
        from google.api_core.exceptions import NotFound

        def delete(blob: Blob) -> None:
            with contextlib.suppress(NotFound):
                blob.delete()

        return len(in_parallel(delete, list(self._bucket.list_blobs(prefix=prefix))))

    def _upload(self, name: str, text: str, *, expected_object_generation: int | None) -> int:
        """Write an object and return its new object generation. `expected_object_generation`: None for any.

        Raises PreconditionFailed if another write changed the object. The client repeats a write whose answer was lost,
        and Cloud Storage refuses the repetition if it had stored the write. So each write has a random id in the
        object's metadata. It tells whose write is stored even if another process wrote the same text.
        """
        from google.api_core.exceptions import PreconditionFailed

        write_id, blob = secrets.token_hex(8), self._bucket.blob(name)
        blob.metadata = {_WRITE_ID: write_id}
        try:
            blob.upload_from_string(
                text.encode(errors="surrogateescape"),
                content_type="application/json",
                if_generation_match=expected_object_generation,
            )
        except PreconditionFailed:
            blob = self._bucket.get_blob(name)
            if blob is None or (blob.metadata or {}).get(_WRITE_ID) != write_id:
                raise
        return int(blob.generation)


def in_parallel(request: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """The results of `request` for each of `items`, in order."""
    if len(items) <= 1:
        return [request(item) for item in items]
    with ThreadPoolExecutor(min(_PARALLEL_REQUESTS, len(items))) as pool:
        return list(pool.map(request, items))


def _decode(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _info(blob: Blob) -> ObjectInfo:
    return ObjectInfo(blob.name, int(blob.generation), blob.crc32c or "", int(blob.size), blob.time_created)
