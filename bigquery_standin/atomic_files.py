"""Writes files atomically: a temporary file is written, and then renamed. `JsonFiles` stores dataclasses in such files.

The files survive a killed process. A power cut may damage some; then the data folder has to be deleted. To sync each
write to the disk took 30 % of the time of a publish.
"""

from __future__ import annotations

import os
import uuid
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

Item = TypeVar("Item")
_SUFFIX = ".json"


def write_atomically(path: Path, content: bytes) -> None:
    """Write the file. Readers find the old content or the new one, never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}"
    temporary.write_bytes(content)
    os.replace(temporary, path)


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class JsonFiles(Generic[Item]):
    """A folder with a JSON file for each stored dataclass. Its name is a path below the folder, without `.json`."""

    def __init__(self, folder: Path, kind: type[Item]) -> None:
        self._folder = folder
        self._adapter = _adapter(kind)  # type: ignore[arg-type]  # to mypy a type is not hashable
        for path in folder.rglob(".*") if folder.exists() else ():
            path.unlink()  # a temporary file of `write_atomically`, left by a killed process

    def names(self) -> list[str]:
        paths = self._folder.rglob(f"*{_SUFFIX}") if self._folder.exists() else ()
        return sorted(path.relative_to(self._folder).as_posix().removesuffix(_SUFFIX) for path in paths)

    def read(self, name: str) -> Item:
        """Raises ValueError for a file that another release has written."""
        path = self._path(name)
        try:
            item: Item = self._adapter.validate_json(path.read_bytes())
        except ValidationError as error:
            raise ValueError(
                f"[{path}] was written by another release: start with an empty data folder. {error}"
            ) from error
        return item

    def read_all(self) -> list[Item]:
        return [self.read(name) for name in self.names()]

    def write(self, name: str, item: Item) -> None:
        write_atomically(self._path(name), self._adapter.dump_json(item))

    def remove(self, name: str) -> None:
        self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"
