"""Finds the sample's files, and reads the columns that may identify rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from dedup_clone.contract.errors import ConfigurationError
from dedup_spark import storage
from dedup_spark.storage import open_parquet

_SNAPSHOT = re.compile(r"(?:^|/)snapshot_id=(0|[1-9][0-9]{0,18})(?:/|$)")
_DATE_FOLDER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([0-9]{4}-[0-9]{2}-[0-9]{2})")


@dataclass(frozen=True)
class SampleFile:
    """One Parquet file. `size`: in bytes. `folder`: column and date of its date folder; None if it is in none."""

    uri: str
    size: int
    folder: tuple[str, date] | None


@dataclass(frozen=True)
class Sample:
    """The files of one snapshot.

    `snapshot_id`: None if no folder names it. `prefix`: the folder of all snapshots within its bucket, `marker`: the
    name of an empty object beside the files; each None if the sample does not show it.
    """

    files: tuple[SampleFile, ...]
    snapshot_id: int | None
    prefix: str | None
    marker: str | None

    @property
    def date_column(self) -> str | None:
        """The column of the date folders; None if some file is in none, or if the folders name different columns."""
        columns = {file.folder[0] if file.folder else None for file in self.files}
        return columns.pop() if len(columns) == 1 else None


def find_sample(uri: str) -> Sample:
    """The files below a folder or a `gs://` URI; if it has several snapshots, the files of the newest.

    Raises ConfigurationError if there are no Parquet files, or if a date folder names no date of the calendar.
    """
    listed = {storage.join(uri, name): found.size for name, found in storage.list_objects(uri).items()}
    ids = {name: int(match[1]) for name in listed if (match := _SNAPSHOT.search(name))}
    newest = max(ids.values(), default=None)
    names = [name for name in sorted(listed) if ids.get(name) == newest]
    files = tuple(
        SampleFile(name, listed[name], _date_folder(name))
        for name in names
        if name.endswith(".parquet") and not _is_ignored(name.removeprefix(uri))
    )
    if not files:
        raise ConfigurationError(
            f"There are no Parquet files below [{uri}]: name the folder of a landed snapshot, or the one above it."
        )
    # An object whose name ends in a slash stands for a folder, and an empty data file is no marker.
    markers = [name.rsplit("/", 1)[1] for name in names if not listed[name] and not name.endswith(("/", ".parquet"))]
    return Sample(files, newest, _prefix(files[0].uri), markers[0] if markers else None)


def _is_ignored(name: str) -> bool:
    """Whether the name of the file, or of a folder that contains it, is that of a hidden or temporary one.

    Such names begin with `.` or `_`, and have no `=`, unlike the folder of a column `_day`.
    """
    return any(part.startswith((".", "_")) and "=" not in part for part in name.split("/"))


def _date_folder(name: str) -> tuple[str, date] | None:
    match = _DATE_FOLDER.fullmatch(name.rsplit("/", 2)[-2])
    if match is None:
        return None
    try:
        return match[1], date.fromisoformat(match[2])
    except ValueError as error:
        raise ConfigurationError(
            f"Sample file [{name}] is in the folder of [{match[2]}], which is no date of the calendar: the producer "
            f"must correct the folder's name."
        ) from error


def _prefix(uri: str) -> str | None:
    match = re.fullmatch(r"gs://[^/]+/(.+?)/snapshot_id=.*", uri)
    return match[1] if match else None


def read_schema(sample: Sample) -> pa.Schema:
    """The columns of the first file. Raises ConfigurationError if it cannot be read."""
    return _read(sample.files[0], None, with_rows=False).schema


def _read(file: SampleFile, names: list[str] | None, *, with_rows: bool = True) -> pa.Table:
    try:
        with storage.open_input(file.uri) as stream, open_parquet(stream) as parquet:
            return parquet.read(names) if with_rows else parquet.schema_arrow.empty_table()
    except (pa.ArrowException, OSError) as error:
        # pyarrow raises plain OSErrors for damaged content; errors of files and networks are of subclasses.
        if not isinstance(error, pa.ArrowException) and type(error) is not OSError:
            raise
        raise ConfigurationError(
            f"Sample file [{file.uri}] cannot be read as Parquet: {error}. Let the producer deliver it again."
        ) from error


def read_columns(sample: Sample, names: Iterable[str], max_rows: int) -> pa.Table:
    """The named columns of the first files: whole files, until together they have at least `max_rows` rows.

    Raises ConfigurationError if the files have different types or cannot be read.
    """
    columns, tables, rows = list(names), list[pa.Table](), 0
    for file in sample.files:
        tables.append(_read(file, columns))
        rows += tables[-1].num_rows
        if rows >= max_rows:
            break
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ConfigurationError(
            f"The files of the sample have different columns ({error}): name a folder of one producer's snapshot."
        ) from error
