"""Which objects of a delivery are its data files, and what became of them since they were frozen: by names and sizes.

One rule for the Spark job and for the engines in SQL. Names are relative to the delivery's folder.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.delivery import Arrival, LandedObject
from dedup_clone.contract.request import DedupRequest

SUFFIX = ".parquet"
# One load job takes so many URIs, and files may be loaded as they were landed.
MAXIMUM_FILES = 10_000


@dataclass(frozen=True)
class DataObject:
    """One data file of a delivery; `day` is its folder's date, None without date folders."""

    name: str
    landed: LandedObject
    day: date | None


@dataclass(frozen=True)
class ObjectVersion:
    """One object as it is now. `generation` changes whenever the object does; `size` in bytes."""

    generation: int
    size: int


def data_objects(
    request: DedupRequest, arrival: Arrival, uri: Callable[[str], str]
) -> tuple[list[DataObject], list[str]]:
    """The delivery's data files, of the request's dates if it names some, and what is wrong with the inventory itself.

    `uri` names an object in messages.
    """
    sizes = {landed.name: landed.size for landed in arrival.objects}
    problems = [
        f"object [{_printable(uri(_below(arrival, name)))}] is newer than the marker, expected all files before it"
        for name in arrival.late_objects
        if not is_ignored(_below(arrival, name), sizes.get(name, 1))
    ]
    files = []
    for landed in arrival.objects:
        name = _below(arrival, landed.name)
        if is_ignored(name, landed.size):
            continue
        problem, day = _judged_name(name, request)
        if problem:
            problems.append(f"object [{_printable(uri(name))}] {problem}")
        elif request.dates is None or day in request.dates:
            files.append(DataObject(name, landed, day))
    folder = _printable(uri(""))
    if not files and not problems:
        problems.append(f"folder [{folder}] holds no data files [*{SUFFIX}]")
    if len(files) > MAXIMUM_FILES and request.takes_over is None:  # an existing table is written anew
        problems.append(
            f"folder [{folder}] holds [{len(files)}] data files, expected at most [{MAXIMUM_FILES}], which is as many "
            f"as one load job takes: write fewer, larger files"
        )
    return files, problems


def dates_of(arrival: Arrival, partition_column: str) -> dict[date, list[LandedObject]]:
    """The delivery's data files by the date of their folder; those in no such folder are left out."""
    found: dict[date, list[LandedObject]] = {}
    for landed in arrival.objects:
        name = _below(arrival, landed.name)
        day = None if is_ignored(name, landed.size) else _folder_date(name, partition_column)
        if day is not None:
            found.setdefault(day, []).append(landed)
    return found


def changed_objects(arrival: Arrival, now: Mapping[str, ObjectVersion], uri: Callable[[str], str]) -> list[str]:
    """What became of objects since the inventory was taken; `now` is the folder as it is. Empty when nothing did."""
    marker = _below(arrival, arrival.marker)
    left = {name: found for name, found in now.items() if name != marker and not is_ignored(name, found.size)}
    problems = []
    for landed in arrival.objects:
        name = _below(arrival, landed.name)
        if is_ignored(name, landed.size):
            continue
        found = left.pop(name, None)
        if found is None:
            problems.append(f"object [{_printable(uri(name))}] is gone")
        elif (found.generation, found.size) != (landed.generation, landed.size):
            problems.append(
                f"object [{_printable(uri(name))}] was replaced: found generation [{found.generation}] of "
                f"[{found.size}] bytes, expected [{landed.generation}] of [{landed.size}]"
            )
    appeared = [f"object [{_printable(uri(name))}] appeared after the inventory was taken" for name in sorted(left)]
    return problems + appeared


def is_ignored(name: str, size: int) -> bool:
    """Placeholders of folders, other writers' markers and hidden leftovers: what Spark ignores too."""
    if not size and (name == "" or name.endswith("/")):
        return True
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in name.split("/"))


def _judged_name(name: str, request: DedupRequest) -> tuple[str | None, date | None]:
    """What is wrong with a data file's name, else the date of its folder (None without date folders)."""
    if not name.endswith(SUFFIX):
        return f"is no data file, expected a name that ends in [{SUFFIX}]", None
    unusable = _unusable_characters(name)
    if unusable:
        return f"has {unusable} in its name, which no load job can name: write it under another name", None
    if "" in name.split("/"):
        return "is in a folder without a name, expected one slash between two names", None
    if not request.date_folders:
        return None, None
    day = _folder_date(name, request.table.partition_column)
    expected = f"{request.table.partition_column}=YYYY-MM-DD"
    return (f"is in no folder [{expected}], expected [{expected}/FILE{SUFFIX}]" if day is None else None), day


def _unusable_characters(name: str) -> str | None:
    """BigQuery takes `*` for a wildcard, and a list of URIs has one a line."""
    if "*" in name:
        return "a [*]"
    controls = any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name)
    return "a line break or control character" if controls else None


def _folder_date(name: str, partition_column: str) -> date | None:
    match = re.fullmatch(rf"{re.escape(partition_column)}=([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})/[^/]+", name)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def _below(arrival: Arrival, name: str) -> str:
    return name.removeprefix(f"{arrival.folder.rstrip('/')}/")


def _printable(uri: str) -> str:
    return uri if uri.isprintable() else uri.encode("unicode_escape").decode()
