"""Arrivals: notices deliveries in landing, freezes their inventory, and knows which of them wait."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.delivery import INT64_MAX, Arrival, Delivery, LandedObject
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.misnamed import Misnamed
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


@dataclass(frozen=True)
class Look:
    """What a look at landing found: deliveries, and markers that name none."""

    markers: list[Marker]
    misnamed: list[Misnamed]


@dataclass(frozen=True)
class _Asked:
    """A folder whose marker is asked for: a snapshot's, or one that is none for the reason given."""

    folder: str
    snapshot_id: int | None
    reason: str


class Landing:
    """The landing prefix of one feed."""

    def __init__(self, store: ObjectStore, prefix: str, marker: str) -> None:
        self._store = store
        self._prefix = f"{prefix}/"
        self._marker = marker

    @property
    def store(self) -> ObjectStore:
        """The landing bucket, for whoever reads the files."""
        return self._store

    def markers(self) -> list[Marker]:
        """All markers that name a delivery, in order of delivery."""
        return self.look().markers

    def look(self, *, skip: Container[str] = ()) -> Look:
        """The markers, by one listing of the folders and one question for each marker whose name is not in `skip`."""
        asked: dict[str, _Asked] = {}
        for folder in self._store.folders(self._prefix):
            asked[f"{folder}{self._marker}"] = _asked(folder, folder.removeprefix(self._prefix))
        asked[f"{self._prefix}{self._marker}"] = _Asked(self._prefix, None, "it lies in no snapshot's folder")
        asked = {name: a for name, a in asked.items() if name not in skip}
        names = [name for name, a in asked.items() if a.snapshot_id is not None or a.reason]
        found = {info.name: info for info in self._store.stat(names)}
        markers = [
            Marker(Delivery(a.snapshot_id, found[name].generation), a.folder, name, found[name].created_at)
            for name, a in asked.items()
            if name in found and a.snapshot_id is not None
        ]
        misnamed = [self._misnamed(found[name], a.reason) for name, a in asked.items() if name in found and a.reason]
        unmarked = [name for name, a in asked.items() if a.snapshot_id is not None and name not in found]
        return Look(sorted(markers, key=lambda m: m.delivery), misnamed + self._folders_as_markers(unmarked))

    def _folders_as_markers(self, unmarked: list[str]) -> list[Misnamed]:
        below = [next(iter(self._store.objects(f"{name}/")), None) for name in unmarked]
        return [self._misnamed(info, "it is a folder, expected an object") for info in below if info is not None]

    def _misnamed(self, info: ObjectInfo, reason: str) -> Misnamed:
        return Misnamed(info.name, self._store.uri(info.name), info.generation, info.created_at, reason)

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
        arrival = self._store.read_record(Arrival, self._layout.arrival(delivery))
        if arrival is None:
            known = ", ".join(d.name for d in self.deliveries()) or "none"
            raise ContractViolation(
                f"Delivery [{delivery.name}] of [{self.feed}] is not registered; registered are: {known}. "
                f"Land its marker, or name one of these."
            )
        return arrival

    def refusal(self, delivery: Delivery) -> Refusal | None:
        """Why a delivery was set aside; None when it was not."""
        return self._store.read_record(Refusal, self._layout.refusal(delivery))

    def uri(self, delivery: Delivery) -> str:
        return self._store.uri(self._layout.arrival(delivery))

    def refuse(self, refusal: Refusal) -> None:
        """Set a delivery aside; the first reason stays."""
        self._store.create(self._layout.refusal(refusal.delivery), to_json(refusal))

    def _named(self, prefix: str) -> Iterable[Delivery]:
        for info in self._store.objects(prefix):
            yield Delivery.parse(info.name.removeprefix(prefix).removesuffix(".json"))


def _asked(folder: str, name: str) -> _Asked:
    """Hidden folders are nobody's snapshot, and nobody's mistake."""
    match = _SNAPSHOT_FOLDER.fullmatch(name)
    if match and int(match[1]) <= INT64_MAX:
        return _Asked(folder, int(match[1]), "")
    return _Asked(folder, None, "" if name.startswith(("_", ".")) else f"folder [{name}] names no snapshot id")


def _landed(info: ObjectInfo) -> LandedObject:
    return LandedObject(info.name, info.generation, info.crc32c, info.size)
