"""Describes the Parquet files that every peer reads: by date, files of the parent and of the arriving snapshots."""

from __future__ import annotations

from dataclasses import dataclass

KEYS = ("product_id", "store_id", "attribute_id")
COLUMNS = ("date", *KEYS, "attr_value", "update_id")


@dataclass(frozen=True)
class DateFiles:
    """The Parquet files of one date, with all columns, also the date.

    `parent`: files of the parent generation. `snapshot`: files of all arriving snapshots.
    """

    day: str
    parent: tuple[str, ...]
    snapshot: tuple[str, ...]


@dataclass(frozen=True)
class InputFiles:
    """The files of one data set with their sizes; stored as input_files.json or input_files-storage.json.

    `name`: the data set's name. `prepared`: the folder below which the parent was published. `code`: the digest of the
    code that published the parent. `snapshot_ids`: the ids of the arriving snapshots. `string_keys`: whether product_id
    is text. `snapshot_rows`: the number of rows in the newest arriving snapshot. `snapshot_bytes`: the size of all
    arriving snapshots. `emulator`: the URL of the emulated Cloud Storage that has the files; None for files of this
    machine.
    """

    name: str
    code: str
    prepared: str
    snapshot_ids: tuple[int, ...]
    string_keys: bool
    parent_rows: int
    snapshot_rows: int
    parent_bytes: int
    snapshot_bytes: int
    emulator: str | None
    dates: tuple[DateFiles, ...]

    def parent_files(self) -> list[str]:
        return [file for date_files in self.dates for file in date_files.parent]

    def snapshot_files(self) -> list[str]:
        return [file for date_files in self.dates for file in date_files.snapshot]
