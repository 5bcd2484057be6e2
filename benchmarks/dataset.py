"""The data sets: their shapes, their files on disk, and the files and counts that a right result has.

Two snapshots are published before anything is measured, and give the parent generation: the oldest snapshot, with few
rows, and the parent's newest snapshot. The arriving snapshots (one, or several in a backlog) are published while the
job is measured. They have a landing folder of their own, because a correction has the same id as the parent's newest
snapshot.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path

from dedup_clone.contract.table import TableContract
from testkit.table_contracts import PRODUCTS

CHECKOUT = Path(__file__).resolve().parents[1]
WORK = Path(os.environ.get("DEDUP_CLONE_BENCHMARKS_DIR", CHECKOUT / ".local/benchmarks"))
DATA = WORK / "data"

KEYS = ("product_id", "store_id", "attribute_id")
DATED_KEYS = ("date", *KEYS)
COLUMNS = (*DATED_KEYS, "attr_value", "update_id")

NEWEST_DATE = date(2026, 6, 30)
_ROWS_PER_FILE = 500_000


class Variant(StrEnum):
    """The kind of generated data. Each variant differs from UNIFORM only in what its comment says."""

    UNIFORM = "uniform"  # one snapshot arrives; the differing rows are in all dates
    DUPLICATES = "duplicates"  # one key in a thousand occurs twice in the snapshot, half of these with two values
    LATE = "late"  # the snapshot is older than the parent's newest snapshot
    CORRECTION = "correction"  # the snapshot has the id of the parent's newest snapshot, which it replaces
    BACKLOG_6 = "backlog-6"  # six snapshots arrive; each differs from the snapshot before it


@dataclass(frozen=True)
class DatasetShape:
    """The size of a data set, and how its snapshot differs from its parent.

    `rows`: the number of rows in a snapshot, all dates together; the parent has about as many. `dates`: their number.
    `differing`: the share of rows that differ between the parent's newest snapshot and the arriving one. Of these rows
    40 % have another value in the arriving snapshot, 30 % are only in it, and 30 % only in the parent's. In a backlog
    each snapshot differs by this share from the snapshot before it. `survivor_share`: the share of the parent's rows
    whose keys only its oldest snapshot has. `string_keys`: whether product_id is text. `seed`: of all random numbers.
    """

    rows: int
    dates: int = 13
    variant: Variant = Variant.UNIFORM
    differing: float = 0.001
    survivor_share: float = 0.0005
    string_keys: bool = False
    seed: int = 7

    @property
    def name(self) -> str:
        keys = "-text" if self.string_keys else ""
        return (
            f"{self.variant}-{self.rows}x{self.dates}-d{self.differing:g}-k{self.survivor_share:g}{keys}-s{self.seed}"
        )

    @property
    def folder(self) -> Path:
        return DATA / self.name

    @property
    def rows_per_date(self) -> int:
        return self.rows // self.dates

    def days(self) -> list[date]:
        """The dates, ascending."""
        return [NEWEST_DATE - timedelta(days=self.dates - 1 - number) for number in range(self.dates)]

    def file_count(self, rows: int) -> int:
        """The number of files into which `rows` rows of a date are written."""
        return max(1, round(rows / _ROWS_PER_FILE))

    @property
    def table(self) -> TableContract:
        """The contract of the data set's table."""
        if not self.string_keys:
            return PRODUCTS
        columns = [replace(c, type="STRING") if c.name == "product_id" else c for c in PRODUCTS.columns]
        return replace(PRODUCTS, columns=tuple(columns))


@dataclass(frozen=True)
class RowCounts:
    """Counts of rows by how the arriving deliveries differ from the parent.

    `new`: keys that the parent lacks. `changed`: keys of the parent whose row has other values afterwards. `survivors`:
    rows of the new table whose key the newest delivery lacks. `duplicates`: rows of a delivery beyond the first of
    their key.
    """

    new: int = 0
    changed: int = 0
    survivors: int = 0
    duplicates: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(
            self.new + other.new,
            self.changed + other.changed,
            self.survivors + other.survivors,
            self.duplicates + other.duplicates,
        )


@dataclass(frozen=True)
class DateFiles:
    """The Parquet files of one date: those of the parent generation, and those of all arriving snapshots."""

    day: str
    parent: tuple[str, ...]
    snapshot: tuple[str, ...]


@dataclass(frozen=True)
class Inputs:
    """A prepared data set, stored as `inputs.json` in its folder.

    `code`: the digest of the code that published the parent. `rows`: the number of rows in the newest arriving
    snapshot. `expected`: the files of the table that every peer must make. `counts`: what a peer that counts must find.
    """

    shape: DatasetShape
    code: str
    snapshot_ids: tuple[int, ...]
    rows: int
    counts: RowCounts
    expected: tuple[str, ...]
    dates: tuple[DateFiles, ...]

    def parent_files(self) -> list[str]:
        return [file for date_files in self.dates for file in date_files.parent]

    def snapshot_files(self) -> list[str]:
        return [file for date_files in self.dates for file in date_files.snapshot]
