"""STAGING: what the staging table holds, so that a publish knows whether it may trust it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dedup_clone.contract.records import to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


class StagingState(StrEnum):
    LOADING = "loading"
    LOADED = "loaded"


@dataclass(frozen=True)
class Staging:
    """`loading`: contents unknown. `loaded`: exactly the manifest's rows."""

    state: StagingState
    attempt: str
    generation: int
    manifest_digest: str


class StagingFile:
    """Reads and changes STAGING under the object generation that was read. Raises LostRace."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._name = FeedLayout(feed).staging

    def read(self) -> Staging | None:
        return self._store.read_record(Staging, self._name)

    def write(self, staging: Staging) -> None:
        stored = self._store.read(self._name)
        expected = 0 if stored is None else stored.generation
        if stored is None or stored.text != to_json(staging):
            self._store.replace(self._name, to_json(staging), expected_generation=expected)
