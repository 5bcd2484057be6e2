"""A delivery's objects against the inventory that was frozen when it was noticed; and which of them are data files."""

from __future__ import annotations

import re
import unicodedata
from datetime import date

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import DedupRequest
from dedup_spark import storage
from dedup_spark.landing.inspection import LandedFile

_SUFFIX = ".parquet"
# One load job takes so many URIs, and files may be loaded as they were landed.
MAXIMUM_FILES = 10_000


def changed_objects(arrival: Arrival) -> list[str]:
    """What became of objects that changed since the inventory was taken. Empty when landing is as it was."""
    folder = arrival.folder.rstrip("/")
    listed = storage.list_objects(storage.object_uri(arrival.bucket, folder))
    frozen = {_below(arrival, o.name): storage.StoredObject(o.generation, o.size) for o in arrival.objects}
    marker = _below(arrival, arrival.marker)
    now = {name: found for name, found in listed.items() if name != marker and not _is_ignored(name, found.size)}
    problems = []
    for name, expected in frozen.items():
        if _is_ignored(name, expected.size):
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
    sizes = {o.name: o.size for o in arrival.objects}
    problems = [
        f"object [{storage.object_uri(arrival.bucket, name)}] is newer than the marker, expected all files before it"
        for name in arrival.late_objects
        if not _is_ignored(_below(arrival, name), sizes.get(name, 1))
    ]
    files = []
    for landed in arrival.objects:
        name = _below(arrival, landed.name)
        if _is_ignored(name, landed.size):
            continue
        uri = _uri(arrival, name)
        problem, day = _judged_name(name, request)
        if problem:
            problems.append(f"object [{_printable(uri)}] {problem}")
        else:
            files.append(LandedFile(uri, landed.size, arrival.delivery.snapshot_id, day))
    folder = storage.object_uri(arrival.bucket, arrival.folder)
    if not files and not problems:
        problems.append(f"folder [{folder}] holds no data files [*{_SUFFIX}]")
    if len(files) > MAXIMUM_FILES:
        problems.append(
            f"folder [{folder}] holds [{len(files)}] data files, expected at most [{MAXIMUM_FILES}], which is as many "
            f"as one load job takes: write fewer, larger files"
        )
    return files, problems


def _judged_name(name: str, request: DedupRequest) -> tuple[str | None, date | None]:
    """What is wrong with a data file's name, else the date of its folder (None without date folders)."""
    if not name.endswith(_SUFFIX):
        return f"is no data file, expected a name that ends in [{_SUFFIX}]", None
    unusable = _unusable_characters(name)
    if unusable:
        return f"has {unusable} in its name, which no load job can name: write it under another name", None
    if "" in name.split("/"):
        return "is in a folder without a name, expected one slash between two names", None
    if not request.date_folders:
        return None, None
    day = _folder_date(name, request.table.partition_column)
    expected = f"{request.table.partition_column}=YYYY-MM-DD"
    return (f"is in no folder [{expected}], expected [{expected}/FILE{_SUFFIX}]" if day is None else None), day


def _unusable_characters(name: str) -> str | None:
    """BigQuery takes `*` for a wildcard, and a list of URIs has one a line."""
    if "*" in name:
        return "a [*]"
    return (
        "a line break or control character"
        if any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name)
        else None
    )


def _printable(uri: str) -> str:
    return uri if uri.isprintable() else uri.encode("unicode_escape").decode()


def _below(arrival: Arrival, name: str) -> str:
    return name.removeprefix(f"{arrival.folder.rstrip('/')}/")


def _uri(arrival: Arrival, name: str) -> str:
    return storage.object_uri(arrival.bucket, storage.join(arrival.folder, name))


def _is_ignored(name: str, size: int) -> bool:
    """Placeholders of folders, other writers' markers and hidden leftovers: what Spark ignores too."""
    if not size and (name == "" or name.endswith("/")):
        return True
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in name.split("/"))


def _folder_date(name: str, partition_column: str) -> date | None:
    match = re.fullmatch(rf"{re.escape(partition_column)}=([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})/[^/]+", name)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None
