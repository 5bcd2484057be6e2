"""A delivery's objects against the inventory that was frozen when it was noticed; and which of them are data files."""

from __future__ import annotations

import re
from datetime import date

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import DedupRequest
from dedup_spark import storage
from dedup_spark.landing.inspection import LandedFile

_SUFFIX = ".parquet"


def changed_objects(arrival: Arrival) -> list[str]:
    """What became of objects that changed since the inventory was taken. Empty when landing is as it was."""
    folder = arrival.folder.rstrip("/")
    listed = storage.list_objects(storage.object_uri(arrival.bucket, folder))
    frozen = {_below(arrival, o.name): storage.StoredObject(o.generation, o.size) for o in arrival.objects}
    now = {name: found for name, found in listed.items() if not _is_ignored(name)}
    problems = []
    for name, expected in frozen.items():
        if _is_ignored(name):
            continue
        found = now.pop(name, None)
        if found is None:
            problems.append(f"object [{_uri(arrival, name)}] is gone")
        elif found != expected:
            problems.append(
                f"object [{_uri(arrival, name)}] was replaced: found generation [{found.generation}] of "
                f"[{found.size}] bytes, expected [{expected.generation}] of [{expected.size}]"
            )
    problems += [f"object [{_uri(arrival, name)}] appeared after the inventory was taken" for name in sorted(now)]
    return problems


def data_files(arrival: Arrival, request: DedupRequest) -> tuple[list[LandedFile], list[str]]:
    """The delivery's data files, and what is wrong with the inventory itself."""
    problems = [
        f"object [{storage.object_uri(arrival.bucket, name)}] is newer than the marker" for name in arrival.late_objects
    ]
    files = []
    for landed in arrival.objects:
        name = _below(arrival, landed.name)
        if _is_ignored(name):
            continue
        uri = _uri(arrival, name)
        day = _folder_date(name, request.table.partition_column) if request.date_folders else None
        if not name.endswith(_SUFFIX):
            problems.append(f"object [{uri}] is no data file, expected a name that ends in [{_SUFFIX}]")
        elif request.date_folders and day is None:
            problems.append(f"object [{uri}] is in no folder [{request.table.partition_column}=YYYY-MM-DD]")
        else:
            files.append(LandedFile(uri, landed.size, arrival.delivery.snapshot_id, day))
    if not files and not problems:
        folder = storage.object_uri(arrival.bucket, arrival.folder)
        problems.append(f"folder [{folder}] holds no data files [*{_SUFFIX}]")
    return files, problems


def _below(arrival: Arrival, name: str) -> str:
    return name.removeprefix(f"{arrival.folder.rstrip('/')}/")


def _uri(arrival: Arrival, name: str) -> str:
    return storage.object_uri(arrival.bucket, storage.join(arrival.folder, name))


def _is_ignored(name: str) -> bool:
    """Markers and other writers' hidden leftovers, as Spark ignores them."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _folder_date(name: str, partition_column: str) -> date | None:
    match = re.fullmatch(rf"{re.escape(partition_column)}=(\d{{4}}-\d{{2}}-\d{{2}})/[^/]+", name)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None
