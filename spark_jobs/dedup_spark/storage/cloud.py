"""Reads and writes objects on Google Cloud Storage, or on the emulator at STORAGE_EMULATOR_HOST.

Functions without a docstring are described in `__init__.py` of this folder.
"""

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
    """Return pyarrow's file system of Cloud Storage, for reading and writing data files: one for each process."""
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
    """Drop both clients, so that the next call connects again: needed after STORAGE_EMULATOR_HOST has changed."""
    filesystem.cache_clear()
    _client.cache_clear()


def path(uri: str) -> str:
    """GCS bucket and object name, as pyarrow's file system takes them."""
    return uri.removeprefix("gs://")


def _blob(uri: str) -> Blob:
    bucket, _, name = path(uri).partition("/")
    return _client().bucket(bucket).blob(name)


def create_text(uri: str, text: str) -> bool:
    """The client repeats a write whose answer was lost, and Cloud Storage refuses the repetition of a stored write.

    So an object with the same text counts as written by this call. Two runs may both be told so only if they wrote the
    same, and then it does not matter which of them did: a candidate with data names the folder of its run.
    """
    from google.api_core.exceptions import PreconditionFailed

    content, blob = text.encode(), _blob(uri)
    try:
        blob.upload_from_string(content, content_type="application/json", if_generation_match=0)
    except PreconditionFailed:
        return bool(blob.download_as_bytes() == content)
    return True


def replace_text(uri: str, text: str, *, timeout_s: float) -> None:
    _blob(uri).upload_from_string(text.encode(), content_type="application/json", timeout=timeout_s, retry=None)


def exists(uri: str) -> bool:
    return bool(_blob(uri).exists())


def list_below(folder_uri: str) -> Iterator[tuple[str, int, int]]:
    """Name below the folder, object generation and size in bytes of each object."""
    bucket, _, folder = path(folder_uri).partition("/")
    prefix = f"{folder.rstrip('/')}/"
    for blob in _client().list_blobs(bucket, prefix=prefix, fields="items(name,generation,size),nextPageToken"):
        yield blob.name.removeprefix(prefix), int(blob.generation), int(blob.size)


def copy_frozen(source_uri: str, target_uri: str, generation: int) -> tuple[int, str] | None:
    """Copy this generation of the source. Return size and crc32c of the copy; None if the generation is gone."""
    from google.api_core.exceptions import NotFound, PreconditionFailed

    try:
        target = _rewrite(source_uri, target_uri, generation)
    except (NotFound, PreconditionFailed):
        return None
    return int(target.size), str(target.crc32c)


def copy(source_uri: str, target_uri: str) -> None:
    _rewrite(source_uri, target_uri, generation=None)


def _rewrite(source_uri: str, target_uri: str, generation: int | None) -> Blob:
    """Copy an object by rewrite requests, which Cloud Storage carries out itself.

    The client library repeats a failed request only if told so. Repeating is safe: it writes the same bytes again.
    """
    from google.cloud.storage.retry import DEFAULT_RETRY

    source, target, token = _blob(source_uri), _blob(target_uri), None
    while True:
        token, _, _ = target.rewrite(source, token, if_source_generation_match=generation, retry=DEFAULT_RETRY)
        if not token:
            return target


def delete(uri: str) -> None:
    from google.api_core.exceptions import NotFound
    from google.cloud.storage.retry import DEFAULT_RETRY

    with suppress(NotFound):
        _blob(uri).delete(retry=DEFAULT_RETRY)  # client libraries before 3.0 repeat a failed request only if told so
