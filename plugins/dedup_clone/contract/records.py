"""Converts frozen dataclasses to JSON and back, so that each release reads what any earlier release wrote.

- A stored record names its `format_version` (1 where it is absent) and the `release` that wrote it.
- A field that a release adds has a default, which a record without the field gets.
- A record type lists in `NOT_IN_DIGEST` the fields that its digest leaves out, because a release added them later. The
  digests that earlier releases computed thus stay valid.
- A record type lists removed fields in `FORMER_FIELDS`; they are ignored where a stored record still has them.
- A record type lists in `STORED_NAMES` the fields whose stored name is an older one than the name in code.
- A new value of an enum, or a field type that allows more values than before, needs no other change: earlier releases
  refuse a record that has such a value.
- If a new release could not read older records, or earlier releases would misread its records without an error, the
  new release must increment FORMAT_VERSION, and its `from_json` must convert older records. No release has done so yet.
- If a later release wrote a record that this one cannot read (because of its format version, a field, a value or a
  type), `from_json` raises LaterRelease, which names the release to deploy. Records are stored with all their fields.
  So once a release with a new field has written a record, no earlier release reads that record.

Fields may be str, int, float, bool, None, date, datetime (UTC), StrEnum, nested dataclasses, tuples, frozensets, and
dicts whose keys are str, int or date.

The JSON of a record is canonical (sorted keys), so that its digest is stable.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import types
import typing
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, TypeVar

from dedup_clone import __version__
from dedup_clone.contract.errors import ContractViolation, LaterRelease

T = TypeVar("T")
FORMAT_VERSION = 1
_VERSION_KEY, _RELEASE_KEY = "format_version", "release"
_REPAIR = "It is damaged: repair it (docs/runbook.md, a record is lost or damaged), then retry."


def to_plain(value: object, *, digested: bool = False) -> Any:
    """A record, or a field of one, as plain JSON values. `digested`: leave out the fields in NOT_IN_DIGEST."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        left_out: frozenset[str] = getattr(value, "NOT_IN_DIGEST", frozenset()) if digested else frozenset()
        names = (f.name for f in dataclasses.fields(value) if f.name not in left_out)
        return {_stored(type(value), name): to_plain(getattr(value, name), digested=digested) for name in names}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (tuple, list)):
        return [to_plain(item, digested=digested) for item in value]
    if isinstance(value, frozenset):
        return sorted(to_plain(item, digested=digested) for item in value)
    if isinstance(value, dict):
        return {str(key): to_plain(item, digested=digested) for key, item in value.items()}
    return value


def to_json(record: object) -> str:
    """The canonical JSON text of a record as it is stored, with format version and release."""
    plain = to_plain(record)
    if isinstance(plain, dict):
        plain = {_VERSION_KEY: FORMAT_VERSION, _RELEASE_KEY: __version__, **plain}
    return _canonical(plain)


def record_digest(record: object) -> str:
    """The digest of a record's fields; the same whichever release writes the record."""
    return digest(_canonical(to_plain(record, digested=True)))


def _canonical(plain: object) -> str:
    return json.dumps(plain, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def from_json(kind: type[T], text: str, *, where: str) -> T:
    """The record of type `kind` in `text`. `where`: the object's URI, for errors.

    Raises ContractViolation if the record is damaged, LaterRelease if a later release wrote what this one cannot read.
    """
    try:
        text.encode()  # fails for bytes that are not UTF-8
        plain = json.loads(text)
    except ValueError as error:
        raise ContractViolation(f"[{where}] is not JSON: {error}. {_REPAIR}") from error
    if not isinstance(plain, dict):
        return from_plain(kind, plain, where=where)
    release = str(plain.get(_RELEASE_KEY, ""))
    version = plain.get(_VERSION_KEY, FORMAT_VERSION)
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise LaterRelease(
            f"[{where}] has format version [{version}], and this release [{__version__}] reads up to "
            f"[{FORMAT_VERSION}]: {_deploy(release)}."
        )
    fields = {key: item for key, item in plain.items() if key not in (_VERSION_KEY, _RELEASE_KEY)}
    if dataclasses.is_dataclass(kind) and _VERSION_KEY in _stored_fields(kind):
        fields[_VERSION_KEY] = version
    try:
        return typing.cast(T, _Reader(release).read(kind, fields, where))
    except LaterRelease:
        raise
    except ContractViolation as error:
        if _release_order(release) <= _release_order(__version__):
            raise
        raise LaterRelease(
            f"[{where}] was written by a later release than this one [{__version__}], which cannot read it: "
            f"{_deploy(release)}."
        ) from error


def from_plain(kind: type[T], plain: object, *, where: str) -> T:
    """The record of type `kind` in plain JSON values. `where`: what they are, for errors.

    Raises ContractViolation, which names the field.
    """
    return typing.cast(T, _Reader("").read(kind, plain, where))


def digest(text: str) -> str:
    """The first 32 hex digits of the text's SHA-256: short enough for a BigQuery label."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reads one record. `release`: the release that wrote the record; empty if unknown."""

    release: str

    def read(self, kind: Any, plain: Any, where: str) -> Any:
        origin = typing.get_origin(kind)
        if origin in (types.UnionType, typing.Union):
            return self._read_union(kind, plain, where)
        if origin is tuple:
            (item_kind, _) = typing.get_args(kind)
            _expect(isinstance(plain, list), where, "a list", plain)
            return tuple(self.read(item_kind, item, f"{where}[{i}]") for i, item in enumerate(plain))
        if origin is frozenset:
            (item_kind,) = typing.get_args(kind)
            _expect(isinstance(plain, list), where, "a list", plain)
            return frozenset(self.read(item_kind, item, f"{where}[{i}]") for i, item in enumerate(plain))
        if origin is dict:
            key_kind, item_kind = typing.get_args(kind)
            _expect(isinstance(plain, dict), where, "an object", plain)
            items = {key: self.read(item_kind, item, f"{where}.{key}") for key, item in plain.items()}
            return {_read_key(key_kind, key, where): item for key, item in items.items()}
        if dataclasses.is_dataclass(kind):
            return self._read_dataclass(typing.cast(type, kind), plain, where)
        return _read_scalar(kind, plain, where)

    def _read_union(self, kind: Any, plain: Any, where: str) -> Any:
        if plain is None:
            _expect(type(None) in typing.get_args(kind), where, "a value", plain)
            return None
        (inner,) = [k for k in typing.get_args(kind) if k is not type(None)]
        return self.read(inner, plain, where)

    def _read_dataclass(self, kind: type, plain: Any, where: str) -> Any:
        _expect(isinstance(plain, dict), where, "an object", plain)
        fields = _stored_fields(kind)
        former: frozenset[str] = getattr(kind, "FORMER_FIELDS", frozenset())
        if unknown := sorted(plain.keys() - former - fields.keys()):
            raise LaterRelease(
                f"[{where}] has fields {unknown}, which this release [{__version__}] does not know: "
                f"{_deploy(self.release)}."
            )
        if missing := sorted(_required_fields(kind) - plain.keys()):
            raise ContractViolation(f"[{where}] lacks fields {missing}. {_REPAIR}")
        given = {key: field for key, field in fields.items() if key in plain}
        return kind(**{name: self.read(hint, plain[key], f"{where}.{key}") for key, (name, hint) in given.items()})


def _release_order(release: str) -> tuple[int, ...]:
    """A key that sorts releases by age; `0.3.0.dev0` comes before `0.3.0`. Empty if the text names no release."""
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(\.dev\d+)?", release)
    return (*map(int, match.groups()[:3]), 0 if match[4] else 1) if match else ()


def _deploy(release: str) -> str:
    return f"deploy at least version [{release}]" if release else "deploy the version that wrote it, or a later one"


def _stored(kind: type, name: str) -> str:
    """The name under which a field is stored."""
    stored_names: dict[str, str] = getattr(kind, "STORED_NAMES", {})
    return stored_names.get(name, name)


@functools.cache
def _stored_fields(kind: type) -> dict[str, tuple[str, Any]]:
    """Name and type of each field by its stored name. Cached: resolving types takes longer than reading a record."""
    hints = typing.get_type_hints(kind)
    return {_stored(kind, f.name): (f.name, hints[f.name]) for f in dataclasses.fields(kind)}


@functools.cache
def _required_fields(kind: type) -> frozenset[str]:
    """The stored names of fields without a default. Older records may lack fields that have a default."""
    fields = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    return frozenset(_stored(kind, f.name) for f in fields if f.default is missing and f.default_factory is missing)


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
        raise ContractViolation(f"[{where}] is [{plain!r}], expected {kind.__name__}: {error}. {_REPAIR}") from error
    if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    _expect(type(plain) is kind, where, kind.__name__, plain)
    return plain


def _expect(condition: bool, where: str, expected: str, found: object) -> None:
    if not condition:
        raise ContractViolation(f"[{where}] is [{found!r}], expected {expected}. {_REPAIR}")
