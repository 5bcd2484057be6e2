"""Describes an object of state that a recovery of lost or damaged records writes or deletes."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.state.store import ObjectStore


@dataclass(frozen=True)
class RecordChange:
    """One object to write, or to delete if `text` is None; `reason` tells the operator why.

    `object_generation` is that of the object as it was read (0: it was absent). The change fails if the object has
    another object generation when the change is made.
    """

    name: str
    text: str | None
    object_generation: int
    reason: str


def change_to(store: ObjectStore, name: str, text: str | None, reason: str) -> RecordChange:
    """The change of object `name`, to be made only if the object still has its present object generation.

    `text`, `reason`: as in RecordChange.
    """
    stored = store.read(name)
    return RecordChange(name, text, 0 if stored is None else stored.object_generation, reason)
