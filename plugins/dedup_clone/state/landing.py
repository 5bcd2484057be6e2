"""Lists one feed's part of the landing bucket: its markers, and the objects of each delivery."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.delivery import INT64_MAX, Arrival, Delivery, LandedObject
from dedup_clone.state.store import ObjectInfo, ObjectStore

_SNAPSHOT_FOLDER = re.compile(r"snapshot_id=(0|[1-9][0-9]{0,18})/")


@dataclass(frozen=True)
class Marker:
    """A marker: the object in a snapshot's folder whose creation says that the delivery is complete."""

    delivery: Delivery
    folder: str
    name: str
    created_at: datetime


@dataclass(frozen=True)
class InvalidMarker:
    """A marker that identifies no delivery and so starts no publish; `reason` says why.

    `generation` is its object generation.
    """

    name: str
    uri: str
    generation: int
    created_at: datetime
    reason: str

    @property
    def text(self) -> str:
        """What the log and the incident say about the marker."""
        return (
            f"Marker [{self.uri}] starts no publish: {self.reason}. Next: land the snapshot below "
            f"[snapshot_id=N/], N from 0 to {INT64_MAX} without leading zeros, with the marker as an object directly "
            f"in that folder, and delete this marker."
        )


@dataclass(frozen=True)
class MarkerListing:
    """The valid markers in landing, ordered by snapshot id and then by time, and the invalid markers."""

    markers: list[Marker]
    invalid: list[InvalidMarker]


@dataclass(frozen=True)
class _Folder:
    """A folder directly below the landing prefix, or the prefix itself.

    A snapshot's folder has a `snapshot_id`. Any other folder has a `reason` why a marker there is invalid. A hidden
    folder has neither, and a marker there is ignored.
    """

    path: str
    snapshot_id: int | None
    reason: str = ""


class Landing:
    """The landing prefix of one feed. `marker`: the name that a marker has in its folder, such as `_SUCCESS`."""

    def __init__(self, store: ObjectStore, prefix: str, marker: str) -> None:
        self.store = store
        self._prefix = f"{prefix}/"
        self._marker = marker

    def folder(self, snapshot_id: int) -> str:
        """The folder of a snapshot, ending in a slash."""
        return f"{self._prefix}snapshot_id={snapshot_id}/"

    def markers(self) -> list[Marker]:
        """All valid markers, ordered by snapshot id and then by time."""
        return self.list_markers().markers

    def list_markers(self, *, skip: Container[str] = ()) -> MarkerListing:
        """The markers whose object names are not in `skip`.

        Takes one listing, one request for each folder that may have a marker, and one listing for each snapshot's
        folder without a marker.
        """
        folders = [_classify_folder(path, path.removeprefix(self._prefix)) for path in self.store.folders(self._prefix)]
        folders.append(_Folder(self._prefix, None, "it lies in no snapshot's folder"))
        folders_by_marker = {f"{f.path}{self._marker}": f for f in folders if f.snapshot_id is not None or f.reason}
        folders_by_marker = {name: folder for name, folder in folders_by_marker.items() if name not in skip}
        existing = {info.name: info for info in self.store.stat(list(folders_by_marker))}
        listing, absent_markers = MarkerListing([], []), list[str]()
        for name, folder in folders_by_marker.items():
            info = existing.get(name)
            if info is not None and folder.snapshot_id is not None:
                delivery = Delivery(folder.snapshot_id, info.object_generation)
                listing.markers.append(Marker(delivery, folder.path, name, info.created_at))
            elif info is not None:
                listing.invalid.append(self._invalid(info, folder.reason))
            elif folder.snapshot_id is not None:
                absent_markers.append(name)
        listing.markers.sort(key=lambda marker: marker.delivery)
        listing.invalid.extend(self._folders_as_markers(absent_markers))
        return listing

    def inventory(self, feed: str, marker: Marker) -> Arrival:
        """The arrival record of the marker's delivery, with the folder's present objects except the marker."""
        objects = [info for info in self.store.objects(marker.folder) if info.name != marker.name]
        return Arrival(
            feed=feed,
            delivery=marker.delivery,
            bucket=self.store.bucket,
            folder=marker.folder,
            marker=marker.name,
            arrived_at=marker.created_at,
            objects=tuple(LandedObject(o.name, o.object_generation, o.crc32c, o.size) for o in objects),
            late_objects=tuple(info.name for info in objects if info.created_at > marker.created_at),
        )

    def _folders_as_markers(self, absent_markers: list[str]) -> list[InvalidMarker]:
        """The folders that have a marker's name: some writers create a folder `_SUCCESS/` instead of an object.

        `absent_markers`: the object names of markers that do not exist.
        """
        first_objects = [next(iter(self.store.objects(f"{name}/")), None) for name in absent_markers]
        return [self._invalid(i, "it is a folder, expected an object") for i in first_objects if i is not None]

    def _invalid(self, info: ObjectInfo, reason: str) -> InvalidMarker:
        return InvalidMarker(info.name, self.store.uri(info.name), info.object_generation, info.created_at, reason)


def _classify_folder(path: str, name: str) -> _Folder:
    """The folder with this `path`. `name`: the path below the landing prefix."""
    match = _SNAPSHOT_FOLDER.fullmatch(name)
    if match and int(match[1]) <= INT64_MAX:
        return _Folder(path, int(match[1]))
    return _Folder(path, None, "" if name.startswith(("_", ".")) else f"folder [{name}] names no snapshot id")
