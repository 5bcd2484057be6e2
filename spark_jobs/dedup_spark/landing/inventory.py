"""A delivery's objects against the inventory that was frozen when it was noticed; and which of them are data files."""

from __future__ import annotations

from collections.abc import Callable

from dedup_clone.contract import landed_objects
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.landed_objects import ObjectVersion
from dedup_clone.contract.request import DedupRequest
from dedup_spark import storage
from dedup_spark.landing.inspection import LandedFile


def changed_objects(arrival: Arrival) -> list[str]:
    """What became of objects that changed since the inventory was taken. Empty when landing is as it was."""
    listed = storage.list_objects(storage.object_uri(arrival.bucket, arrival.folder.rstrip("/")))
    now = {name: ObjectVersion(found.generation, found.size) for name, found in listed.items()}
    return landed_objects.changed_objects(arrival, now, _uri_of(arrival))


def data_files(arrival: Arrival, request: DedupRequest) -> tuple[list[LandedFile], list[str]]:
    """The delivery's data files, and what is wrong with the inventory itself."""
    uri = _uri_of(arrival)
    found, problems = landed_objects.data_objects(request, arrival, uri)
    return [LandedFile(uri(o.name), o.landed.size, arrival.delivery.snapshot_id, o.day) for o in found], problems


def _uri_of(arrival: Arrival) -> Callable[[str], str]:
    """Names of objects below the delivery's folder as URIs of this store."""
    return lambda name: storage.object_uri(arrival.bucket, storage.join(arrival.folder, name))
