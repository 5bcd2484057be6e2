"""Converts frozen dataclasses to JSON and back.

From release 1.0 on, each release reads the records of every other one: keys that a release does not know are ignored,
and a field that a record lacks gets its default. So a field that a release adds needs a default, which never changes.

Fields may be str, int, float, bool, date, datetime (UTC), StrEnum, nested dataclasses, tuples, dicts whose
keys are str, int or date, and any of these or None.
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
_DAMAGED = "It is damaged: restore a former version of it (docs/runbook.md, a record is lost or damaged), then retry."


def to_plain(value: object, *, with_defaults: bool = True) -> Any:
    """A record, or a field of one, as plain JSON values. `with_defaults`: include fields that have their default."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(f, getattr(value, f.name)) for f in dataclasses.fields(value)]
        stored = {f.name: item for f, item in fields if with_defaults or item != _default(f)}
        return {name: to_plain(item, with_defaults=with_defaults) for name, item in stored.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (tuple, list)):
        return [to_plain(item, with_defaults=with_defaults) for item in value]
    if isinstance(value, dict):
        return {str(key): to_plain(item, with_defaults=with_defaults) for key, item in value.items()}
    return value


def to_json(record: object) -> str:
    """The JSON text of a record as it is stored. Keys are sorted, so that equal records have equal texts."""
    return _to_text(to_plain(record))


def record_digest(record: object) -> str:
    """The digest of a record. Fields with their defaults are left out, so that a new field changes no old digest."""
    return digest(_to_text(to_plain(record, with_defaults=False)))


def _to_text(plain: object) -> str:
    return json.dumps(plain, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def digest(text: str) -> str:
    """The first 32 hex digits of the text's SHA-256: short enough for a BigQuery label."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def from_json(kind: type[T], text: str, *, where: str) -> T:
    """The record of type `kind` in `text`. `where`: the object's URI, for errors. Raises ContractViolation."""
    try:
        text.encode()  # fails for bytes that are not UTF-8
        plain = json.loads(text)
    except ValueError as error:
        raise ContractViolation(f"[{where}] is not JSON: {error}. {_DAMAGED}") from error
    return from_plain(kind, plain, where=where)


def from_plain(kind: type[T], plain: object, *, where: str) -> T:
    """The record of type `kind` in plain JSON values. `where`: what they are, for errors.

    Raises ContractViolation, which names the field.
    """
    return typing.cast(T, _read(kind, plain, where))


def _read(kind: Any, plain: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = [argument for argument in arguments if argument is not types.NoneType]
        return None if plain is None else _read(inner, plain, where)
    if origin is tuple:
        _expect(isinstance(plain, list), where, "a list", plain)
        return tuple(_read(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(plain))
    if origin is dict:
        _expect(isinstance(plain, dict), where, "an object", plain)
        return {_read_key(arguments[0], k, where): _read(arguments[1], v, f"{where}.{k}") for k, v in plain.items()}
    if dataclasses.is_dataclass(kind):
        return _read_record(typing.cast(type, kind), plain, where)
    return _read_scalar(kind, plain, where)


def _read_record(kind: type, plain: Any, where: str) -> Any:
    _expect(isinstance(plain, dict), where, "an object", plain)
    hints, required = _fields(kind)
    if missing := sorted(required - plain.keys()):
        raise ContractViolation(f"[{where}] lacks fields {missing}. {_DAMAGED}")
    given = {name: plain[name] for name in hints if name in plain}
    return kind(**{name: _read(hints[name], value, f"{where}.{name}") for name, value in given.items()})


@functools.cache
def _fields(kind: type) -> tuple[dict[str, Any], frozenset[str]]:
    """The types of all fields by name, and the names of fields without a default. Resolving types takes long."""
    hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
    required = frozenset(f.name for f in fields if _default(f) is dataclasses.MISSING)
    return {f.name: hints[f.name] for f in fields}, required


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _read_key(kind: Any, key: str, where: str) -> Any:
    if kind is not int:
        return _read_scalar(kind, key, where)
    _expect(key.isdigit(), where, "a number as key", key)
    return int(key)


def _read_scalar(kind: Any, plain: Any, where: str) -> Any:
    try:
        if kind in (datetime, date):
            return kind.fromisoformat(plain)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind(plain)
    except (TypeError, ValueError) as error:
        raise ContractViolation(f"[{where}] is [{plain!r}], expected {kind.__name__}: {error}. {_DAMAGED}") from error
    if kind is float and type(plain) is int:
        return float(plain)
    _expect(type(plain) is kind, where, kind.__name__, plain)
    return plain


def _expect(condition: bool, where: str, expected: str, found: object) -> None:
    if not condition:
        raise ContractViolation(f"[{where}] is [{found!r}], expected {expected}. {_DAMAGED}")
