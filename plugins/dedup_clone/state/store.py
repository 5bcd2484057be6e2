"""Text objects in a bucket, changed only under a stated expectation. The one place that talks to Cloud Storage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import IO, TYPE_CHECKING, TypeVar, cast

from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.records import from_json

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

_PARALLEL_REQUESTS = 10  # as many connections as the client keeps
READ_CHUNK_BYTES = 256 * 1024
T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True)
class StoredText:
    """An object's text and its generation, which a later `replace` states as what it expects."""

    text: str
    generation: int


@dataclass(frozen=True)
class ObjectInfo:
    """One object as listed. `size` in bytes; `created_at` is when this generation was written."""

    name: str
    generation: int
    crc32c: str
    size: int
    created_at: datetime


class ObjectStore:
    """One bucket."""

    def __init__(self, client: Client, bucket: str) -> None:
        self._bucket = client.bucket(bucket)
        self.bucket = bucket

    def uri(self, name: str) -> str:
        return f"gs://{self.bucket}/{name}"

    def read(self, name: str) -> StoredText | None:
        """The object's text, None when it is absent."""
        from google.api_core.exceptions import NotFound

        blob = self._bucket.blob(name)
        try:
            return StoredText(blob.download_as_bytes().decode(), int(blob.generation))
        except NotFound:
            return None

    def read_record(self, kind: type[T], name: str) -> T | None:
        """The record of type `kind` that the object holds, None when it is absent. Raises ContractViolation."""
        stored = self.read(name)
        return None if stored is None else from_json(kind, stored.text, where=self.uri(name))

    def read_records(self, kind: type[T], names: Sequence[str]) -> list[T]:
        """Those of `names` that exist, in their order, read side by side. Raises ContractViolation."""
        found = side_by_side(lambda name: self.read_record(kind, name), names)
        return [record for record in found if record is not None]

    def read_if_changed(self, name: str, known_generation: int) -> StoredText | None:
        """The object's text, None when it still is the generation that the caller knows. NotFound when it is absent."""
        from google.api_core.exceptions import NotModified

        blob = self._bucket.blob(name)
        try:
            text = blob.download_as_bytes(if_generation_not_match=known_generation).decode()
        except NotModified:
            return None
        # A server that ignores the precondition sends the known text again.
        return None if int(blob.generation) == known_generation else StoredText(text, int(blob.generation))

    def open(self, name: str, *, chunk_bytes: int = READ_CHUNK_BYTES) -> IO[bytes]:
        """A seekable reader that fetches what is read, in pieces of `chunk_bytes`. NotFound when there is no object."""
        return cast("IO[bytes]", self._bucket.blob(name).open("rb", chunk_size=chunk_bytes))

    def create(self, name: str, text: str) -> bool:
        """Write a new object. False, and nothing written, when it exists."""
        from google.api_core.exceptions import PreconditionFailed

        try:
            self._upload(name, text, expected_generation=0)
        except PreconditionFailed:
            return False
        return True

    def replace(self, name: str, text: str, *, expected_generation: int) -> int:
        """Replace the object as it was read (0: it was absent); returns the new generation. Raises LostRace."""
        from google.api_core.exceptions import PreconditionFailed

        try:
            return self._upload(name, text, expected_generation=expected_generation)
        except PreconditionFailed as error:
            raise LostRace(
                f"[{self.uri(name)}] changed since it was read as object generation [{expected_generation}]: "
                f"another run wrote it. Retry the task: it reads again and decides anew."
            ) from error

    def put(self, name: str, text: str) -> None:
        """Write an object whose content follows from others (an index): the last writer wins."""
        self._upload(name, text, expected_generation=None)

    def objects(self, prefix: str) -> Iterator[ObjectInfo]:
        for blob in self._bucket.list_blobs(prefix=prefix):
            yield _info(blob)

    def folders(self, prefix: str) -> list[str]:
        """The folders directly below `prefix` (which ends in a slash), each ending in a slash."""
        listing = self._bucket.list_blobs(prefix=prefix, delimiter="/", fields="prefixes,nextPageToken")
        for _ in listing:  # the prefixes are known only after all pages were read
            pass
        return sorted(listing.prefixes)

    def stat(self, names: list[str]) -> list[ObjectInfo]:
        """Those of `names` that exist, asked for side by side."""
        return [_info(blob) for blob in side_by_side(self._bucket.get_blob, names) if blob is not None]

    def delete(self, name: str, *, expected_generation: int) -> bool:
        """Delete the object as it was read. False, and nothing deleted, when it changed or is gone."""
        from google.api_core.exceptions import NotFound, PreconditionFailed

        try:
            self._bucket.blob(name).delete(if_generation_match=expected_generation)
        except (NotFound, PreconditionFailed):
            return False
        return True

    def delete_folder(self, prefix: str) -> int:
        """Delete all objects below `prefix`; returns how many. Objects that are gone already are no error."""
        from google.api_core.exceptions import NotFound

        def delete(blob: Blob) -> None:
            with contextlib.suppress(NotFound):
                blob.delete()

        return len(side_by_side(delete, list(self._bucket.list_blobs(prefix=prefix))))

    def _upload(self, name: str, text: str, *, expected_generation: int | None) -> int:
        blob = self._bucket.blob(name)
        blob.upload_from_string(text.encode(), content_type="application/json", if_generation_match=expected_generation)
        return int(blob.generation)


def side_by_side(request: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """The answers in the order of `items`."""
    if len(items) <= 1:
        return [request(item) for item in items]
    with ThreadPoolExecutor(min(_PARALLEL_REQUESTS, len(items))) as pool:
        return list(pool.map(request, items))


def _info(blob: Blob) -> ObjectInfo:
    return ObjectInfo(blob.name, int(blob.generation), blob.crc32c or "", int(blob.size), blob.time_created)
