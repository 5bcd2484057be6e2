"""Lists one feed's part of the landing bucket, and reads the footers of Parquet objects."""

from __future__ import annotations

import io
import re
from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dedup_clone.contract.delivery import INT64_MAX, Arrival, Delivery, LandedObject
from dedup_clone.contract.parquet import describe_unreadable, read_parquet_footer
from dedup_clone.state.store import ObjectInfo, ObjectStore, in_parallel

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
        below = [path.removeprefix(self._prefix) for path in self.store.folders(self._prefix)]
        folders = [*(name for name in below if not name.startswith(("_", "."))), ""]  # hidden folders are ignored
        folder_by_marker = {f"{self._prefix}{folder}{self._marker}": folder for folder in folders}
        folder_by_marker = {name: folder for name, folder in folder_by_marker.items() if name not in skip}
        existing = {info.name: info for info in self.store.stat(list(folder_by_marker))}
        listing, absent_markers = MarkerListing([], []), list[str]()
        for name, folder in folder_by_marker.items():
            info, snapshot_id = existing.get(name), _snapshot_id(folder)
            if info is not None and snapshot_id is not None:
                delivery = Delivery(snapshot_id, info.object_generation)
                listing.markers.append(Marker(delivery, f"{self._prefix}{folder}", name, info.created_at))
            elif info is not None:
                reason = f"folder [{folder}] names no snapshot id" if folder else "it lies in no snapshot's folder"
                listing.invalid.append(self._invalid(info, reason))
            elif snapshot_id is not None:
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


def _snapshot_id(folder: str) -> int | None:
    """The snapshot id of a folder directly below the landing prefix; None if it names none."""
    match = _SNAPSHOT_FOLDER.fullmatch(folder)
    return int(match[1]) if match and int(match[1]) <= INT64_MAX else None


@dataclass(frozen=True)
class ParquetLeaf:
    """A column without nested columns. `logical_type` is a text, `annotation` the same type as JSON.

    `column`: the name of the top-level column that is the leaf, or contains it.
    """

    path: str
    column: str
    physical_type: str
    logical_type: str
    annotation: str

    @property
    def is_nested(self) -> bool:
        return self.path != self.column


@dataclass(frozen=True)
class ParquetFooter:
    """The footer of the object `name`. `leaves`: in the file's order.

    `problem`: why the footer could not be read; `rows` is then 0, and `leaves` is empty.
    """

    name: str
    rows: int
    leaves: tuple[ParquetLeaf, ...]
    problem: str | None = None


def read_footers(store: ObjectStore, names: list[str]) -> list[ParquetFooter]:
    """The footers of the named objects, in order, read in parallel by small requests.

    Raises the errors of Cloud Storage, and NotFound for an object that is gone.
    """

    def read(name: str) -> ParquetFooter:
        problem = ""
        for _ in range(2):  # the first answer of Cloud Storage may have been cut off
            try:
                return _footer(store, name)
            except (OSError, ValueError) as error:
                if not _is_parse_error(error):
                    raise
                problem = describe_unreadable(error)
        return ParquetFooter(name, 0, (), problem)

    return in_parallel(read, names)


def _is_parse_error(error: Exception) -> bool:
    """Whether pyarrow could not parse what it read. Errors of connections have classes of their own."""
    from pyarrow import ArrowInvalid

    # A column's name that is not UTF-8 is a UnicodeDecodeError.
    return type(error) is OSError or isinstance(error, (ArrowInvalid, UnicodeDecodeError))


def _footer(store: ObjectStore, name: str) -> ParquetFooter:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with store.open(name) as stream:
        footer = read_parquet_footer(stream, stream.seek(0, io.SEEK_END))
        metadata = pq.read_metadata(pa.BufferReader(footer) if footer else stream)
    leaves = tuple(_leaf(metadata.schema.column(number)) for number in range(len(metadata.schema)))
    return ParquetFooter(name, metadata.num_rows, leaves)


def _leaf(leaf: Any) -> ParquetLeaf:
    # The name is the last part of the path, and may contain dots. If both are equal, the leaf is a top-level column.
    column = leaf.path if leaf.name == leaf.path else leaf.path.split(".", 1)[0]
    return ParquetLeaf(leaf.path, column, leaf.physical_type, str(leaf.logical_type), leaf.logical_type.to_json())
