"""Markers that name no delivery: told once each, so that a producer's slip is seen and not waited for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.delivery import INT64_MAX
from dedup_clone.contract.records import to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


@dataclass(frozen=True)
class Misnamed:
    """A marker found in landing that starts no publish. `uri` is where it lies, `reason` why it names no delivery."""

    name: str
    uri: str
    generation: int
    created_at: datetime
    reason: str

    @property
    def text(self) -> str:
        return (
            f"Marker [{self.uri}] starts no publish: {self.reason}. Next: land the snapshot below "
            f"[snapshot_id=N/], N from 0 to {INT64_MAX} without leading zeros, with the marker as an object directly "
            f"in that folder, and delete this one."
        )


class MisnamedMarkers:
    """The records below `misnamed/`."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._layout = FeedLayout(feed)

    def tell(self, found: Iterable[Misnamed]) -> list[Misnamed]:
        """Record those that are not recorded yet, and return them: whoever gets one says it."""
        by_record = {self._layout.misnamed_record(m.name, m.generation): m for m in found}
        if not by_record:
            return []
        told = {info.name for info in self._store.objects(self._layout.misnamed)}
        return [m for name, m in by_record.items() if name not in told and self._store.create(name, to_json(m))]
