"""Reads and writes objects as files of a file system that all workers share, for runs without Cloud Storage.

A file's modification time in nanoseconds is its object generation. Functions without a docstring are described in
`__init__.py` of this folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa


def open_input(uri: str) -> pa.NativeFile:
    return pa.OSFile(uri, "rb")


def open_output(uri: str) -> pa.NativeFile:
    try:
        return pa.OSFile(uri, "wb")
    except FileNotFoundError:
        Path(uri).parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(uri, "wb")


def create_text(uri: str, text: str) -> bool:
    path = Path(uri)
    with _written_first(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    return True


@contextmanager
def _written_first(target: Path) -> Iterator[Path]:
    """The path of a new file beside `target`, which is to become the target. It is deleted if it is still there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def exists(uri: str) -> bool:
    return Path(uri).exists()


def list_below(folder_uri: str) -> Iterator[tuple[str, int, int]]:
    folder = Path(folder_uri)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        status = path.stat()
        yield path.relative_to(folder).as_posix(), status.st_mtime_ns, status.st_size


def copy_frozen(source_uri: str, target_uri: str, generation: int) -> tuple[int, str] | None:
    """Copy the source. Return the size of the copy, and no checksum; None if the source is gone or was written again.

    The copy is no hard link: later writes to the source would change it.
    """
    source, target = Path(source_uri), Path(target_uri)
    with _written_first(target) as temporary:
        try:
            shutil.copyfile(source, temporary)
            if source.stat().st_mtime_ns != generation:
                return None
        except FileNotFoundError:
            return None
        size = temporary.stat().st_size
        temporary.replace(target)
    return size, ""


def copy(source_uri: str, target_uri: str) -> None:
    """Make a hard link, or a copy where that is impossible, such as from one device to another."""
    source, target = Path(source_uri), Path(target_uri)
    with _written_first(target) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
        temporary.replace(target)  # which does nothing if the target was already a link to the same file


def delete(uri: str) -> None:
    Path(uri).unlink(missing_ok=True)
