"""Finds a delivery's data files, and the objects that changed since the delivery was registered.

The Spark job, the SQL engines and other tasks share these rules. `name` is relative to the delivery's folder; the
records Arrival and LandedObject have full object names. A parameter `uri` is a function that returns the URI of a
`name`, for messages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.attempt import MAX_TABLE_FILES, URIS_PER_JOB, Attempt
from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject

SUFFIX = ".parquet"
_MAX_NAMED_PROBLEMS = 5


@dataclass(frozen=True)
class DataObject:
    """One data file of a delivery. `day` is the date of its folder; None for a feed without date folders."""

    name: str
    landed: LandedObject
    day: date | None


@dataclass(frozen=True)
class ObjectVersion:
    """The current version of an object. Each write gives it a new `object_generation`; `size` in bytes."""

    object_generation: int
    size: int


def data_objects(attempt: Attempt, arrival: Arrival, uri: Callable[[str], str]) -> tuple[list[DataObject], list[str]]:
    """The delivery's data files, and one text for each reason to refuse the delivery.

    If the attempt names dates, only files of these dates are returned.
    """
    sizes = {landed.name: landed.size for landed in arrival.objects}
    problems = [
        f"object [{_printable(uri(_name_below(arrival, late)))}] is newer than the marker, expected all files before it"
        for late in arrival.late_objects
        if not is_ignored(_name_below(arrival, late), size=sizes.get(late, 1))  # an unlisted one counts as not empty
    ]
    files = []
    for landed in arrival.objects:
        name = _name_below(arrival, landed.name)
        if is_ignored(name, landed.size):
            continue
        problem, day = _check_name(name, attempt)
        if problem:
            problems.append(f"object [{_printable(uri(name))}] {problem}")
        elif attempt.dates is None or day in attempt.dates:
            files.append(DataObject(name, landed, day))
    folder = _printable(uri(""))
    if not files and not problems:
        problems.append(f"folder [{folder}] holds no data files [*{SUFFIX}]")
    # An SQL engine names all files in the configuration of one job, and BigQuery limits their number. A takeover (of an
    # exported table) has no limit, because its rows are written into new files.
    limit = MAX_TABLE_FILES if attempt.engine.runs_spark else URIS_PER_JOB
    if len(files) > limit and attempt.takes_over is None:
        problems.append(
            f"folder [{folder}] holds [{len(files)}] data files, expected at most [{limit}] for engine "
            f"[{attempt.engine}]: write fewer, larger files"
        )
    return files, problems


def empty_files(objects: list[DataObject], uri: Callable[[str], str]) -> list[str]:
    """One text for each data file of 0 bytes."""
    return [f"file [{uri(o.name)}] is empty (0 bytes), expected a Parquet file" for o in objects if not o.landed.size]


def describe_no_rows(folder_uri: str, file_count: int) -> str:
    """The problem of a delivery whose data files have no row. If it were applied, every key would count as missing."""
    return f"folder [{_printable(folder_uri)}] holds no row in [{file_count}] data files, expected a complete snapshot"


def refusal_reason(feed: str, delivery: Delivery, problems: list[str]) -> str:
    """The text that is recorded with a refusal: the first problems, and what the producer should do."""
    return (
        f"Delivery [{delivery.name}] of feed [{feed}] is refused, nothing of it was used: {first_problems(problems)}. "
        f"Next: correct it and deliver snapshot [{delivery.snapshot_id}] again, the marker last."
    )


def first_problems(problems: list[str]) -> str:
    """The first five problems as one text, and how many more there are."""
    named = "; ".join(problems[:_MAX_NAMED_PROBLEMS])
    return named + (f"; and {len(problems) - _MAX_NAMED_PROBLEMS} more" if len(problems) > _MAX_NAMED_PROBLEMS else "")


def objects_by_date(arrival: Arrival, date_folder: str) -> dict[date, list[LandedObject]]:
    """The delivery's data files by the date of their folder; files outside date folders are left out."""
    by_date: dict[date, list[LandedObject]] = {}
    for landed in arrival.objects:
        name = _name_below(arrival, landed.name)
        day = None if is_ignored(name, landed.size) else _folder_date(name, date_folder)
        if day is not None:
            by_date.setdefault(day, []).append(landed)
    return by_date


def changed_objects(arrival: Arrival, objects_now: Mapping[str, ObjectVersion], uri: Callable[[str], str]) -> list[str]:
    """One text for each object that vanished, changed or appeared since the delivery was registered.

    `objects_now`: the objects in the delivery's folder, by name. Ignored objects (`is_ignored`) do not count.
    """
    marker = _name_below(arrival, arrival.marker)
    others = {n: version for n, version in objects_now.items() if n != marker and not is_ignored(n, version.size)}
    problems = []
    for landed in arrival.objects:
        name = _name_below(arrival, landed.name)
        if is_ignored(name, landed.size):
            continue
        found = others.pop(name, None)  # at the end, `others` are the objects that the inventory does not list
        if found is None:
            problems.append(f"object [{_printable(uri(name))}] is gone")
        elif (found.object_generation, found.size) != (landed.generation, landed.size):
            problems.append(
                f"object [{_printable(uri(name))}] was replaced: found generation [{found.object_generation}] of "
                f"[{found.size}] bytes, expected [{landed.generation}] of [{landed.size}]"
            )
    appeared = [f"object [{_printable(uri(name))}] appeared after the inventory was taken" for name in sorted(others)]
    return problems + appeared


def is_ignored(name: str, size: int) -> bool:
    """Whether the object is no data file but a folder placeholder or a hidden file, which Spark ignores too.

    A file is hidden if its name or a folder of it begins with a dot or an underscore, except names `_column=value`.
    """
    if not size and (name == "" or name.endswith("/")):
        return True
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in name.split("/"))


def _check_name(name: str, attempt: Attempt) -> tuple[str | None, date | None]:
    """What is wrong with a data file's name, or None; and the date of its folder, or None outside date folders."""
    if not name.endswith(SUFFIX):
        return f"is no data file, expected a name that ends in [{SUFFIX}]", None
    unusable = _unusable_characters(name)
    if unusable:
        return f"has {unusable} in its name, which no load job can name: write it under another name", None
    if "" in name.split("/"):
        return "is in a folder without a name, expected one slash between two names", None
    if not attempt.date_folders:
        return None, None
    day = _folder_date(name, attempt.table.date_folder)
    expected = f"{attempt.table.date_folder}=YYYY-MM-DD"
    return (f"is in no folder [{expected}], expected [{expected}/FILE{SUFFIX}]" if day is None else None), day


def _unusable_characters(name: str) -> str | None:
    """A description of the name's characters that prevent a load job from loading the file; None if it has none.

    BigQuery takes `*` for a wildcard, and a list of URIs has one URI per line.
    """
    if "*" in name:
        return "a [*]"
    has_control = any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name)
    return "a line break or control character" if has_control else None


def _folder_date(name: str, date_folder: str) -> date | None:
    """The date of the date folder that directly contains the file; None if no date folder does."""
    match = re.fullmatch(rf"{re.escape(date_folder)}=([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})/[^/]+", name)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def _name_below(arrival: Arrival, full_name: str) -> str:
    return full_name.removeprefix(f"{arrival.folder.rstrip('/')}/")


def _printable(uri: str) -> str:
    return uri if uri.isprintable() else uri.encode("unicode_escape").decode()
