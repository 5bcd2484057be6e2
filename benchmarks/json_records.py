"""Reads and writes dataclasses as JSON files, with which the processes of a benchmark exchange data."""

from __future__ import annotations

import json
import types
import typing
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

Record = TypeVar("Record")


def write_record(path: Path, content: Any) -> None:
    """Write `content` as JSON, atomically: a dataclass, or a list or dict that may contain dataclasses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(json.dumps(content, indent=1, default=asdict) + "\n")
    temporary.replace(path)


def read_record(of_type: type[Record], path: Path) -> Record:
    """Read a value of type `of_type`. Raises FileNotFoundError, and KeyError when a field of a dataclass is missing."""
    record: Record = from_json_value(of_type, json.loads(path.read_text()))
    return record


def from_json_value(of_type: Any, value: Any) -> Any:
    """A value of type `of_type` from parsed JSON: a dataclass, an enum, a tuple of one type, a dict or a plain value.

    The type may also be a union of one of these types and None.
    """
    origin, arguments = typing.get_origin(of_type), typing.get_args(of_type)
    if isinstance(of_type, type) and issubclass(of_type, Enum):
        return of_type(value)
    if is_dataclass(of_type) and isinstance(of_type, type):
        hints = typing.get_type_hints(of_type)
        names = [field.name for field in fields(of_type)]
        return of_type(**{name: from_json_value(hints[name], value[name]) for name in names})
    if origin is tuple:
        return tuple(from_json_value(arguments[0], item) for item in value)
    if origin is dict:
        return {key: from_json_value(arguments[1], item) for key, item in value.items()}
    if origin in (types.UnionType, typing.Union):
        return None if value is None else from_json_value(arguments[0], value)
    return value
