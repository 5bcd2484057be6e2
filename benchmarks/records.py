"""Small records as JSON files: what is handed from one process of a benchmark to the next."""

from __future__ import annotations

import json
import types
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

Record = TypeVar("Record")


def write_record(path: Path, content: dict[str, Any] | list[Any]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def read_record(kind: type[Record], path: Path) -> Record:
    """Raises FileNotFoundError, or TypeError when the file holds another record."""
    found: Record = from_plain(kind, json.loads(path.read_text()))
    return found


def from_plain(kind: Any, value: Any) -> Any:
    """Builds dataclasses of this package from what JSON gave: nested ones, tuples and dicts of them too."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: from_plain(hints[field.name], value[field.name]) for field in fields(kind)})
    if origin is tuple:
        return tuple(from_plain(arguments[0], item) for item in value)
    if origin is dict:
        return {key: from_plain(arguments[1], item) for key, item in value.items()}
    if origin in (types.UnionType, typing.Union):
        return None if value is None else from_plain(arguments[0], value)
    return value
