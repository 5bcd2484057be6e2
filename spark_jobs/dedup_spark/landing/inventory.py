"""Compares the objects of a delivery with its frozen inventory, and finds its data files."""

from __future__ import annotations

from collections.abc import Callable

from dedup_clone.contract import landed_objects
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.landed_objects import ObjectVersion
from dedup_spark import storage
from dedup_spark.landing.file_validation import LandedFile


def changed_objects(arrival: Arrival) -> list[str]:
    """A problem for each object that changed, vanished or appeared after the inventory was frozen.

    Folder placeholders and hidden files do not count.
    """
    listed = storage.list_objects(storage.object_uri(arrival.bucket, arrival.folder.rstrip("/")))
    present = {name: ObjectVersion(found.generation, found.size) for name, found in listed.items()}
    return landed_objects.changed_objects(arrival, present, _uri_of(arrival))


def data_files(arrival: Arrival, attempt: Attempt) -> tuple[list[LandedFile], list[str]]:
    """The delivery's data files, and the problems of the inventory itself."""
    uri_of = _uri_of(arrival)
    found, problems = landed_objects.data_objects(attempt, arrival, uri_of)
    return [LandedFile(uri_of(o.name), o.landed.size, arrival.delivery.snapshot_id, o.day) for o in found], problems


def _uri_of(arrival: Arrival) -> Callable[[str], str]:
    """A function that returns the URI of an object, given its name below the delivery's folder."""
    return lambda name: storage.object_uri(arrival.bucket, storage.join(arrival.folder, name))
