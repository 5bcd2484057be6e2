"""Files that are whole or absent after a kill or a power cut: written aside, synced, then renamed into place."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, content: bytes) -> None:
    """The rename is the commit: readers find the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.parent / f".{path.name}.{uuid.uuid4().hex}"
    with aside.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(aside, path)
    sync_folder(path.parent)


def is_aside(path: Path) -> bool:
    """Left over by a kill before the rename."""
    return path.name.startswith(".")
