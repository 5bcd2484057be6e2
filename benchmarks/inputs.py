"""The same files for every peer: those of the state and those of the arriving snapshot, by date."""

from __future__ import annotations

from dataclasses import dataclass

KEYS = ("product_id", "store_id", "attribute_id")
COLUMNS = ("date", *KEYS, "attr_value", "update_id")


@dataclass(frozen=True)
class DateFiles:
    """Parquet files of one date, with all columns, the date too."""

    day: str
    state: tuple[str, ...]
    snapshot: tuple[str, ...]


@dataclass(frozen=True)
class Inputs:
    """`prepared` is the folder with the state as the product published it, `code` the digest of the code that did.

    Rows and bytes are of the files. `emulator` is the address of the emulated Cloud Storage that holds the files, None
    for files of this machine.
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
        return [file for day in self.dates for file in day.state]

    def snapshot_files(self) -> list[str]:
        return [file for day in self.dates for file in day.snapshot]
