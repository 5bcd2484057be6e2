"""STAGING: the object that says what the staging table contains, so that a publish knows what it must load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


class StagingState(StrEnum):
    """What is known about the rows of staging; `Staging` describes the states."""

    LOADING = "loading"
    LOADED = "loaded"
    BEHIND_TARGET = "behind"


@dataclass(frozen=True)
class Staging:
    """The content of the staging table.

    LOADING: `attempt` is loading, and the content is unknown. LOADED: staging has exactly the rows of the manifest with
    `manifest_digest`. BEHIND_TARGET: staging is older than target, because the attempt streams changes into target.
    `is_streamed`: the attempt streams changes over its parent's rows, in state BEHIND_TARGET into target, else into
    staging. In state LOADING BigQuery may still be applying these changes. `streamed_into_target`: the
    `newest_in_target` of the record that this one replaced; 0 in the first record.
    """

    state: StagingState
    attempt: str
    generation: int
    manifest_digest: str
    is_streamed: bool = False
    streamed_into_target: int = 0

    @property
    def newest_in_target(self) -> int:
        """The newest generation of an attempt, this one included, that streamed changes into target; 0 if none did."""
        return self.generation if self.state is StagingState.BEHIND_TARGET else self.streamed_into_target

    def target_is_mixed(self, live_generation: int | None) -> bool:
        """Whether target may have rows of an attempt that was not committed, besides those of the live generation."""
        return self.newest_in_target > (live_generation or 0)


class StagingFile:
    """Reads and writes STAGING of one feed."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._name = FeedLayout(feed).staging

    def read(self) -> Staging | None:
        """The record; None before the first load."""
        return self._store.read_record(Staging, self._name)

    def write(self, staging: Staging) -> None:
        """Replace the record, whose `streamed_into_target` becomes the former record's `newest_in_target`.

        Raises LostRace when another run replaces the record at the same time.
        """
        stored, expected = self._store.read(self._name), 0
        if stored is not None:
            expected, former = stored.object_generation, from_json(Staging, stored.text, where=self._name)
            staging = replace(staging, streamed_into_target=former.newest_in_target)
        if stored is None or stored.text != to_json(staging):
            self._store.replace(self._name, to_json(staging), expected_object_generation=expected)
