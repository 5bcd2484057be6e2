"""The input files of every peer, by date: those of the state (the parent table) and of the arriving snapshot."""

from __future__ import annotations

from dataclasses import dataclass

KEYS = ("product_id", "store_id", "attribute_id")
COLUMNS = ("date", *KEYS, "attr_value", "update_id")


@dataclass(frozen=True)
class DateFiles:
    """The Parquet files of one date. They contain all columns, also the date."""

    day: str
    state: tuple[str, ...]
    snapshot: tuple[str, ...]


@dataclass(frozen=True)
class InputFiles:
    """The files of one data set with their sizes. The benchmarks store it as inputs.json.

    `prepared`: the folder with the published state. `code`: the digest of the code that published it. `emulator`:
    the URL of the emulated Cloud Storage that has the files; None for files of this machine.
    """

    name: str
    code: str
    prepared: str
    snapshot_id: int
    string_keys: bool
    state_rows: int
    snapshot_rows: int
    state_bytes: int
    snapshot_bytes: int
    emulator: str | None
    dates: tuple[DateFiles, ...]

    def state_files(self) -> list[str]:
        return [file for date_files in self.dates for file in date_files.state]

    def snapshot_files(self) -> list[str]:
        return [file for date_files in self.dates for file in date_files.snapshot]
