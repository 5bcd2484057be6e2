"""Google Cloud Storage, or the emulator that STORAGE_EMULATOR_HOST names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow.fs

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

_EMULATOR = "STORAGE_EMULATOR_HOST"


@lru_cache(maxsize=1)
def filesystem() -> pyarrow.fs.FileSystem:
    host = os.environ.get(_EMULATOR)
    if not host:
        return pyarrow.fs.GcsFileSystem()
    address = urlsplit(host if "://" in host else f"http://{host}")
    return pyarrow.fs.GcsFileSystem(anonymous=True, scheme=address.scheme, endpoint_override=address.netloc)


@lru_cache(maxsize=1)
def _client() -> Client:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    if os.environ.get(_EMULATOR):
        return Client(project="local", credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    return Client()


def forget_clients() -> None:
    """Connect anew: the address of the storage has changed."""
    filesystem.cache_clear()
    _client.cache_clear()


def path(uri: str) -> str:
    return uri.removeprefix("gs://")


def _blob(uri: str) -> Blob:
    bucket, _, name = path(uri).partition("/")
    return _client().bucket(bucket).blob(name)


def create_text(uri: str, text: str) -> bool:
    from google.api_core.exceptions import PreconditionFailed

    try:
        _blob(uri).upload_from_string(text.encode(), content_type="application/json", if_generation_match=0)
    except PreconditionFailed:
        return False
    return True


def exists(uri: str) -> bool:
    return bool(_blob(uri).exists())


def list_below(folder_uri: str) -> Iterator[tuple[str, int, int]]:
    bucket, _, folder = path(folder_uri).partition("/")
    prefix = f"{folder.rstrip('/')}/"
    for blob in _client().list_blobs(bucket, prefix=prefix, fields="items(name,generation,size),nextPageToken"):
        yield blob.name.removeprefix(prefix), int(blob.generation), int(blob.size)


def adopt(source_uri: str, target_uri: str, generation: int, *, with_crc32c: bool) -> tuple[int, str] | None:
    """Size and crc32c of the copy as the storage says them; None when the source has no such generation any more."""
    from google.api_core.exceptions import NotFound, PreconditionFailed

    source, target = _blob(source_uri), _blob(target_uri)
    try:
        token, _, _ = target.rewrite(source, if_source_generation_match=generation)
        while token:
            token, _, _ = target.rewrite(source, token=token, if_source_generation_match=generation)
    except (NotFound, PreconditionFailed):
        return None
    return int(target.size), str(target.crc32c) if with_crc32c else ""


def copy(source_uri: str, target_uri: str) -> None:
    """A rewrite: within one location and storage class it moves no bytes; a large one answers in parts."""
    source, target = _blob(source_uri), _blob(target_uri)
    token, _, _ = target.rewrite(source)
    while token:
        token, _, _ = target.rewrite(source, token=token)


def delete(uri: str) -> None:
    from google.api_core.exceptions import NotFound

    with suppress(NotFound):
        _blob(uri).delete()
