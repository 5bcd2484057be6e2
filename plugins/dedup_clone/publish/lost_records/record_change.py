"""Reads records that may be damaged, and describes what a recovery writes in place of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from dedup_clone.contract.errors import ContractViolation, LaterRelease
from dedup_clone.contract.records import from_json
from dedup_clone.state.store import ObjectStore, StoredText

T = TypeVar("T")


@dataclass(frozen=True)
class RecordChange:
    """One object to write, or to delete if `text` is None; `reason` tells the operator why.

    `object_generation` is the one that was read (0: the object is absent). The change fails if the object has another
    one by then.
    """

    name: str
    text: str | None
    object_generation: int
    reason: str


def change_to(store: ObjectStore, name: str, text: str | None, reason: str) -> RecordChange:
    """The change of the object as it is stored now."""
    stored = store.read(name)
    return RecordChange(name, text, 0 if stored is None else stored.object_generation, reason)


def read_if_sound(store: ObjectStore, kind: type[T], name: str) -> T | None:
    """The record; None if it is absent or damaged. Raises LaterRelease when a later release wrote it."""
    return parse_if_sound(store, kind, name, store.read(name))


def parse_if_sound(store: ObjectStore, kind: type[T], name: str, stored: StoredText | None) -> T | None:
    """Like `read_if_sound`, for an object that was read already."""
    try:
        return None if stored is None else from_json(kind, stored.text, where=store.uri(name))
    except LaterRelease:
        raise
    except ContractViolation:
        return None
