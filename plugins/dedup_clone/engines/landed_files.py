"""Which objects of a delivery are its data files, and whether landing is still as it was when the delivery was noticed.

The rules are those of the Spark job; here they are judged by the worker, on names and sizes alone.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date

from dedup_clone.contract.delivery import Arrival, LandedObject
from dedup_clone.contract.request import DedupRequest

_SUFFIX = ".parquet"
MAXIMUM_FILES = 10_000  # one load job takes so many URIs


def data_files(request: DedupRequest, arrival: Arrival) -> tuple[list[LandedObject], list[str]]:
    """The delivery's data files, and what is wrong with the inventory itself."""
    sizes = {landed.name: landed.size for landed in arrival.objects}
    problems = [
        f"object [{_uri(arrival, name)}] is newer than the marker, expected all files before it"
        for name in arrival.late_objects
        if not _is_ignored(_below(arrival, name), sizes.get(name, 1))
    ]
    files = []
    for landed in arrival.objects:
        name = _below(arrival, landed.name)
        if _is_ignored(name, landed.size):
            continue
        problem = _name_problem(request, name)
        if problem:
            problems.append(f"object [{_uri(arrival, landed.name)}] {problem}")
        elif not landed.size:
            problems.append(f"file [{_uri(arrival, landed.name)}] is empty (0 bytes), expected a Parquet file")
        else:
            files.append(landed)
    folder = _uri(arrival, arrival.folder)
    if not files and not problems:
        problems.append(f"folder [{folder}] holds no data files [*{_SUFFIX}]")
    if len(files) > MAXIMUM_FILES:
        problems.append(
            f"folder [{folder}] holds [{len(files)}] data files, expected at most [{MAXIMUM_FILES}], which is as many "
            f"as one load job takes: write fewer, larger files"
        )
    return files, problems


def changed_objects(arrival: Arrival, now: Arrival) -> list[str]:
    """What became of objects since the inventory `arrival` was taken; `now` is the delivery's folder as it is."""
    frozen, found = _relevant(arrival), _relevant(now)
    problems = []
    for name, expected in frozen.items():
        other = found.pop(name, None)
        if other is None:
            problems.append(f"object [{_uri(arrival, name)}] is gone")
        elif (other.generation, other.size) != (expected.generation, expected.size):
            problems.append(
                f"object [{_uri(arrival, name)}] was replaced: found generation [{other.generation}] of "
                f"[{other.size}] bytes, expected [{expected.generation}] of [{expected.size}]"
            )
    problems += [f"object [{_uri(arrival, name)}] appeared after the inventory was taken" for name in sorted(found)]
    return problems


def _relevant(arrival: Arrival) -> dict[str, LandedObject]:
    return {o.name: o for o in arrival.objects if not _is_ignored(_below(arrival, o.name), o.size)}


def _name_problem(request: DedupRequest, name: str) -> str | None:
    column = request.table.partition_column
    if not name.endswith(_SUFFIX):
        return f"is no data file, expected a name that ends in [{_SUFFIX}]"
    if "*" in name or any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name):
        return "has a [*], a line break or a control character in its name, which no load job can name: rename it"
    if request.date_folders and not _is_date_folder(column, name):
        return f"is in no folder [{column}=YYYY-MM-DD], expected [{column}=YYYY-MM-DD/FILE{_SUFFIX}]"
    return None


def _is_date_folder(column: str, name: str) -> bool:
    match = re.fullmatch(rf"{re.escape(column)}=([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})/[^/]+", name)
    try:
        return bool(match and date.fromisoformat(match[1]))
    except ValueError:
        return False


def _is_ignored(name: str, size: int) -> bool:
    """Placeholders of folders, other writers' markers and hidden leftovers: what Spark ignores too."""
    if not size and (name == "" or name.endswith("/")):
        return True
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in name.split("/"))


def _below(arrival: Arrival, name: str) -> str:
    return name.removeprefix(arrival.folder)


def _uri(arrival: Arrival, name: str) -> str:
    uri = f"gs://{arrival.bucket}/{name}"
    return uri if uri.isprintable() else uri.encode("unicode_escape").decode()
