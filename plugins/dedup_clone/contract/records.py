"""Converts frozen dataclasses to JSON and back. Reading is strict: an unknown or missing field is an error.

A record type lists removed fields in `FORMER_FIELDS`; they are ignored where a stored record still has them.

Supports what the records need: str, int, float, bool, None, date, datetime (UTC), StrEnum, nested dataclasses,
tuples, frozensets, and dicts whose keys are str, int or date.

The JSON of a record is canonical (sorted keys), so that its digest is stable.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import types
import typing
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, TypeVar

from dedup_clone.contract.errors import ContractViolation

T = TypeVar("T")


def to_plain(value: object) -> Any:
    """A record as plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(to_plain(item) for item in value)
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


def to_json(record: object) -> str:
    """The canonical JSON text of a record."""
    return json.dumps(to_plain(record), sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def from_json(kind: type[T], text: str, *, where: str) -> T:
    """The record of type `kind` in `text`. `where` names the object in errors. Raises ContractViolation."""
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise ContractViolation(f"[{where}] is not JSON: {error}. Restore the object from its versions.") from error
    return from_plain(kind, plain, where=where)


def from_plain(kind: type[T], plain: object, *, where: str) -> T:
    """The record of type `kind` in plain JSON values. Raises ContractViolation, which names the field."""
    return typing.cast(T, _read(kind, plain, where))


def digest(text: str) -> str:
    """The first 32 hex digits of the text's SHA-256: short enough for a BigQuery label."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _read(kind: Any, plain: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _read_union(kind, plain, where)
    if origin is tuple:
        (item_kind, _) = typing.get_args(kind)
        _expect(isinstance(plain, list), where, "a list", plain)
        return tuple(_read(item_kind, item, f"{where}[{i}]") for i, item in enumerate(plain))
    if origin is frozenset:
        (item_kind,) = typing.get_args(kind)
        _expect(isinstance(plain, list), where, "a list", plain)
        return frozenset(_read(item_kind, item, f"{where}[{i}]") for i, item in enumerate(plain))
    if origin is dict:
        key_kind, item_kind = typing.get_args(kind)
        _expect(isinstance(plain, dict), where, "an object", plain)
        items = {key: _read(item_kind, item, f"{where}.{key}") for key, item in plain.items()}
        return {_read_key(key_kind, key, where): item for key, item in items.items()}
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(typing.cast(type, kind), plain, where)
    return _read_scalar(kind, plain, where)


def _read_union(kind: Any, plain: Any, where: str) -> Any:
    if plain is None:
        _expect(type(None) in typing.get_args(kind), where, "a value", plain)
        return None
    (inner,) = [k for k in typing.get_args(kind) if k is not type(None)]
    return _read(inner, plain, where)


def _read_dataclass(kind: type, plain: Any, where: str) -> Any:
    _expect(isinstance(plain, dict), where, "an object", plain)
    hints = _field_types(kind)
    former: frozenset[str] = getattr(kind, "FORMER_FIELDS", frozenset())
    unknown, missing = sorted(plain.keys() - former - hints.keys()), sorted(_required_fields(kind) - plain.keys())
    if unknown or missing:
        raise ContractViolation(
            f"[{where}] has unknown fields {unknown} and lacks {missing}: it was written by another version of this "
            f"project; deploy the version that wrote it, or remove the object."
        )
    return kind(**{n: _read(hint, plain[n], f"{where}.{n}") for n, hint in hints.items() if n in plain})


@functools.cache
def _field_types(kind: type) -> dict[str, Any]:
    """The type of each field by name. Cached: resolving annotations takes longer than reading a record."""
    hints = typing.get_type_hints(kind)
    return {f.name: hints[f.name] for f in dataclasses.fields(kind)}


@functools.cache
def _required_fields(kind: type) -> frozenset[str]:
    """The fields without a default. Older records may lack the others."""
    fields = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    return frozenset(f.name for f in fields if f.default is missing and f.default_factory is missing)


def _read_key(kind: Any, key: str, where: str) -> Any:
    if kind is not int:
        return _read_scalar(kind, key, where)
    _expect(key.isdigit(), where, "a number as key", key)
    return int(key)


def _read_scalar(kind: Any, plain: Any, where: str) -> Any:
    try:
        if kind is datetime:
            return datetime.fromisoformat(plain)
        if kind is date:
            return date.fromisoformat(plain)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind(plain)
    except (TypeError, ValueError) as error:
        raise ContractViolation(f"[{where}] is [{plain!r}], expected {kind.__name__}: {error}") from error
    if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    _expect(type(plain) is kind, where, kind.__name__, plain)
    return plain


def _expect(condition: bool, where: str, expected: str, found: object) -> None:
    if not condition:
        raise ContractViolation(f"[{where}] is [{found!r}], expected {expected}.")
