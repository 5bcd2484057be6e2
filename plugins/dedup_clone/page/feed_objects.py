"""Reads objects of the state bucket for one feed's page, and keeps what it has parsed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json
from dedup_clone.state.store import ObjectStore, in_parallel

R = TypeVar("R")
T = TypeVar("T")
log = logging.getLogger(__name__)


class FeedObjects:
    """The objects that the page of one feed needs.

    A damaged one is logged and counts as absent, so that it hides nothing else.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._changing: dict[str, tuple[int, Any]] = {}  # by object name: its object generation and its record
        self._known: dict[str, Any] = {}
        self._used: dict[str, Any] = {}

    def begin(self) -> None:
        """Forget what was not used since the last call."""
        self._known, self._used = self._used, {}

    def read(self, kind: type[R], name: str) -> R | None:
        """The record in an object that changes; None if it is absent. It is parsed again only if it has changed."""
        from google.api_core.exceptions import NotFound

        record: R | None
        known_generation, record = self._changing.get(name, (0, None))
        try:
            stored = self.store.read_if_changed(name, known_generation)
        except NotFound:
            self._changing.pop(name, None)
            return None
        if stored is not None:
            record = self._parse(kind, name, stored.text)
            self._changing[name] = (stored.object_generation, record)
        return record

    def read_once(self, kind: type[R], names: Sequence[str], keep: Callable[[R], T]) -> list[T]:
        """What `keep` returns of the records in these objects, without absent ones.

        They are written once, so they are requested only if they were not used before the last `begin`.
        """
        new = [name for name in names if name not in self._known and name not in self._used]
        for name, stored in zip(new, in_parallel(self.store.read, new), strict=True):
            record = None if stored is None else self._parse(kind, name, stored.text)
            if record is not None:
                self._known[name] = keep(record)
        self._used |= {name: self._known[name] for name in names if name in self._known}
        return [self._used[name] for name in names if name in self._used]

    def _parse(self, kind: type[R], name: str, text: str) -> R | None:
        try:
            return from_json(kind, text, where=self.store.uri(name))
        except ContractViolation as error:
            log.warning("%s", error)
            return None
