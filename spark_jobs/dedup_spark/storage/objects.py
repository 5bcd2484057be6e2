"""The few things the job does with objects; each picks the storage by the URI's scheme."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from dedup_spark.storage import cloud, files

_GS = "gs://"


@dataclass(frozen=True)
class StoredObject:
    """One listed object. `generation` changes whenever the object does; `size` in bytes."""

    generation: int
    size: int


def join(folder_uri: str, *parts: str) -> str:
    return "/".join([folder_uri.rstrip("/"), *parts])


def object_uri(bucket: str, name: str) -> str:
    """The URI of object `name` of an arrival's bucket: a bucket's name, or a folder's path (with a slash)."""
    return join(bucket, name) if "/" in bucket else f"{_GS}{bucket}/{name}"


def open_input(uri: str) -> pa.NativeFile:
    """A seekable reader. Raises FileNotFoundError when the object is absent."""
    return cloud.filesystem().open_input_file(cloud.path(uri)) if _is_cloud(uri) else files.open_input(uri)


def open_output(uri: str) -> pa.NativeFile:
    """A writer; the object exists when the writer was closed."""
    return cloud.filesystem().open_output_stream(cloud.path(uri)) if _is_cloud(uri) else files.open_output(uri)


def read_text(uri: str) -> str:
    with open_input(uri) as stream:
        return bytes(stream.read()).decode()


def write_text(uri: str, text: str) -> None:
    with open_output(uri) as stream:
        stream.write(text.encode())


def create_text(uri: str, text: str) -> bool:
    """Write a new object, whole or not at all. False, and nothing written, when it exists already."""
    return cloud.create_text(uri, text) if _is_cloud(uri) else files.create_text(uri, text)


def exists(uri: str) -> bool:
    return cloud.exists(uri) if _is_cloud(uri) else files.exists(uri)


def list_objects(folder_uri: str) -> dict[str, StoredObject]:
    """All objects below a folder, by their name relative to it. Empty when there is no such folder."""
    listed = cloud.list_below(folder_uri) if _is_cloud(folder_uri) else files.list_below(folder_uri)
    return {name: StoredObject(generation, size) for name, generation, size in listed}


def copy(source_uri: str, target_uri: str) -> None:
    """Copy without moving the bytes through this machine; an object of the target's name is replaced."""
    if _is_cloud(source_uri):
        cloud.copy(source_uri, target_uri)
    else:
        files.copy(source_uri, target_uri)


def _is_cloud(uri: str) -> bool:
    return uri.startswith(_GS)
