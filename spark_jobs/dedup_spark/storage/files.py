"""Reads and writes objects as files of a file system that all workers share, for runs without Cloud Storage.

A file's modification time in nanoseconds is its object generation. Functions without a docstring are described in
`__init__.py` of this folder.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyarrow as pa

_CHUNK_BYTES = 1 << 20


def _name(uri: str) -> str:
    return unquote(urlsplit(uri).path) if uri.startswith("file:") else uri


def _path(uri: str) -> Path:
    return Path(_name(uri))


def open_input(uri: str) -> pa.NativeFile:
    return pa.OSFile(_name(uri), "rb")


def open_output(uri: str) -> pa.NativeFile:
    name = _name(uri)
    try:
        return pa.OSFile(name, "wb")
    except FileNotFoundError:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(name, "wb")


def create_text(uri: str, text: str) -> bool:
    path = _path(uri)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    temporary.write_text(text, encoding="utf-8")
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def exists(uri: str) -> bool:
    return _path(uri).exists()


def list_below(folder_uri: str) -> Iterator[tuple[str, int, int]]:
    folder = _path(folder_uri)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        status = path.stat()
        yield path.relative_to(folder).as_posix(), status.st_mtime_ns, status.st_size


def copy_frozen(source_uri: str, target_uri: str, generation: int, *, with_crc32c: bool) -> tuple[int, str] | None:
    """Copy the source. Return size and crc32c of the copy; None if the source is gone or has another generation.

    The crc32c is empty unless `with_crc32c`. The copy is no hard link: later writes to the source would change it.
    """
    source, target = _path(source_uri), _path(target_uri)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        shutil.copyfile(source, temporary)
        if source.stat().st_mtime_ns != generation:
            return None
        checksum = _crc32c(temporary) if with_crc32c else ""
        size = temporary.stat().st_size
        temporary.replace(target)
    except FileNotFoundError:
        return None
    finally:
        temporary.unlink(missing_ok=True)
    return size, checksum


def _crc32c(path: Path) -> str:
    from google_crc32c import extend

    checksum = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            checksum = extend(checksum, chunk)
    return base64.b64encode(checksum.to_bytes(4, "big")).decode()


def copy(source_uri: str, target_uri: str) -> None:
    """Make a hard link, or a copy where that is impossible, such as from one device to another."""
    source, target = _path(source_uri), _path(target_uri)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
        temporary.replace(target)
    finally:  # `temporary` is still there if target was already a link to the same file
        temporary.unlink(missing_ok=True)


def delete(uri: str) -> None:
    _path(uri).unlink(missing_ok=True)
