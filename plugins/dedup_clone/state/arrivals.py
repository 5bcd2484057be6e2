"""Arrivals: notices deliveries in landing, freezes their inventory, and knows which of them wait."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.delivery import INT64_MAX, Arrival, Delivery, LandedObject
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectInfo, ObjectStore

_SNAPSHOT_FOLDER = re.compile(r"snapshot_id=(0|[1-9][0-9]{0,18})/")


@dataclass(frozen=True)
class Marker:
    """A marker found in landing: a delivery that is complete."""

    delivery: Delivery
    folder: str
    name: str
    created_at: datetime


@dataclass(frozen=True)
class Refusal:
    """A delivery that was set aside, and why."""

    delivery: Delivery
    reason: str
    run_id: str
    refused_at: datetime


class Landing:
    """The landing prefix of one feed."""

    def __init__(self, store: ObjectStore, prefix: str, marker: str) -> None:
        self._store = store
        self._prefix = f"{prefix}/"
        self._marker = marker

    def markers(self) -> list[Marker]:
        """All markers, in order of delivery. Folders that are no `snapshot_id=<INT64>` are left alone."""
        folders = {}
        for folder in self._store.folders(self._prefix):
            match = _SNAPSHOT_FOLDER.fullmatch(folder.removeprefix(self._prefix))
            if match and int(match[1]) <= INT64_MAX:
                folders[f"{folder}{self._marker}"] = (folder, int(match[1]))
        found = []
        for info in self._store.stat(list(folders)):
            folder, snapshot_id = folders[info.name]
            found.append(Marker(Delivery(snapshot_id, info.generation), folder, info.name, info.created_at))
        return sorted(found, key=lambda m: m.delivery)

    def inventory(self, feed: str, marker: Marker) -> Arrival:
        """The delivery's objects as they are now, without the marker."""
        objects = [info for info in self._store.objects(marker.folder) if info.name != marker.name]
        return Arrival(
            feed=feed,
            delivery=marker.delivery,
            bucket=self._store.bucket,
            folder=marker.folder,
            marker=marker.name,
            arrived_at=marker.created_at,
            objects=tuple(_landed(info) for info in objects),
            late_objects=tuple(info.name for info in objects if info.created_at > marker.created_at),
        )


class Arrivals:
    """The records below `arrivals/` and `refused/`."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._layout = FeedLayout(feed)
        self.feed = feed

    def unregistered(self, markers: Iterable[Marker]) -> list[Marker]:
        registered = set(self.deliveries())
        return [m for m in markers if m.delivery not in registered]

    def register(self, landing: Landing, marker: Marker) -> None:
        """Freeze the delivery's inventory. Harmless when it is registered already: the first record stays."""
        self._store.create(self._layout.arrival(marker.delivery), to_json(landing.inventory(self.feed, marker)))

    def deliveries(self) -> list[Delivery]:
        return sorted(self._named(self._layout.arrivals))

    def refused(self) -> list[Delivery]:
        return sorted(self._named(self._layout.refused))

    def read(self, delivery: Delivery) -> Arrival:
        name = self._layout.arrival(delivery)
        stored = self._store.read(name)
        if stored is None:
            known = ", ".join(d.name for d in self.deliveries()) or "none"
            raise ContractViolation(
                f"Delivery [{delivery.name}] of [{self.feed}] is not registered; registered are: {known}. "
                f"Land its marker, or name one of these."
            )
        return from_json(Arrival, stored.text, where=self._store.uri(name))

    def uri(self, delivery: Delivery) -> str:
        return self._store.uri(self._layout.arrival(delivery))

    def refuse(self, refusal: Refusal) -> None:
        """Set a delivery aside; the first reason stays."""
        self._store.create(self._layout.refusal(refusal.delivery), to_json(refusal))

    def _named(self, prefix: str) -> Iterable[Delivery]:
        for info in self._store.objects(prefix):
            yield Delivery.parse(info.name.removeprefix(prefix).removesuffix(".json"))


def _landed(info: ObjectInfo) -> LandedObject:
    return LandedObject(info.name, info.generation, info.crc32c, info.size)
