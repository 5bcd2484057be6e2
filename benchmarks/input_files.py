"""The input files that every peer reads: by date, those of the parent generation and of the arriving snapshots."""

from __future__ import annotations

from dataclasses import dataclass

KEYS = ("product_id", "store_id", "attribute_id")
COLUMNS = ("date", *KEYS, "attr_value", "update_id")


@dataclass(frozen=True)
class DateFiles:
    """The Parquet files of one date; `snapshot`: of all arriving snapshots. They contain all columns, also the date."""

    day: str
    parent: tuple[str, ...]
    snapshot: tuple[str, ...]


@dataclass(frozen=True)
class InputFiles:
    """The files of one data set with their sizes; stored as input_files.json.

    `prepared`: the folder below which the parent was published. `code`: the digest of the job's code that published
    the parent. `emulator`: the URL of the emulated Cloud Storage that has the files; None for files of this machine.
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
