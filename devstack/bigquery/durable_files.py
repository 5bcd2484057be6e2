"""Writes files atomically and durably: a temporary file is written and synced, and then renamed."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make creations, renames and deletions of files in the folder survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create the folder and its missing parents, so that they survive a crash."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for created in missing:
        sync_folder(created.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write the file. Readers find the old content or the new one, never a part of it, even after a crash."""
    make_folder(path.parent)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}"
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def is_temporary_file(path: Path) -> bool:
    """Whether this is a temporary file of `write_durably`. A killed process may have left it."""
    return path.name.startswith(".")
