"""The parameters from which a data set is generated.

A data set has a parent (the generation on which the measured publish builds) and an arriving snapshot, or several.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

NEWEST_DATE = date(2026, 6, 30)
_ROWS_PER_FILE = 500_000
_SKEW = 1.2  # exponent of the power law by which the dates of Variant.SKEWED get their rows


class Variant(StrEnum):
    """The kind of generated data. Each variant differs from UNIFORM only in what its comment says."""

    UNIFORM = "uniform"  # the differing rows are in all dates, and the rows of a file are in random order
    CONCENTRATED = "concentrated"  # all differing rows are in the newest thirteenth of the dates
    SORTED = "sorted"  # the rows of every file are sorted by key
    PARENT_SORTED = "parent-sorted"  # the rows of the parent's files are sorted by key, those of the snapshot are not
    DUPLICATES = "duplicates"  # one key in a thousand occurs twice in the snapshot, half of these with two values
    SKEWED = "skewed"  # a few dates have most of the rows
    LATE = "late"  # the snapshot is older than the parent's newest snapshot
    CORRECTION = "correction"  # the snapshot has the id of the parent's newest snapshot, which it replaces
    BACKLOG_2 = "backlog-2"  # two snapshots arrive; each differs from the snapshot before it
    BACKLOG_6 = "backlog-6"  # six snapshots arrive; each differs from the snapshot before it
    NARROW = "narrow"  # the files store store_id and attribute_id as 32-bit integers


@dataclass(frozen=True)
class DatasetShape:
    """The size of a data set, and how its snapshot differs from its parent.

    `rows`: the number of rows in a snapshot, all dates together; the parent has about as many. `dates`: their number.
    `differing`: the share of rows that differ between the parent's newest snapshot and the arriving one. Of these rows
    40 % have another value in the arriving snapshot, 30 % are only in it, and 30 % only in the parent's. In a backlog
    each snapshot differs by this share from the snapshot before it. `survivor_share`: the share of the parent's rows
    whose keys only its oldest snapshot has. The oldest one also has a tenth of the keys that are new in the arriving
    one. `string_keys`: whether product_id is text. `seed`: the seed of all random numbers.
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

    def days(self) -> list[date]:
        """The dates, ascending."""
        return [NEWEST_DATE - timedelta(days=self.dates - 1 - number) for number in range(self.dates)]

    def rows_by_date(self) -> list[int]:
        """The number of rows on each date of `days`."""
        if self.variant is not Variant.SKEWED:
            return [self.rows // self.dates] * self.dates
        weights = [1 / (self.dates - number) ** _SKEW for number in range(self.dates)]
        return [max(1, int(self.rows * weight / sum(weights))) for weight in weights]

    def differing_share_by_date(self) -> list[float]:
        """The share of differing rows on each date of `days`."""
        if self.variant is not Variant.CONCENTRATED:
            return [self.differing] * self.dates
        differing_dates = max(1, self.dates // 13)
        share = min(1.0, self.differing * self.dates / differing_dates)
        return [0.0] * (self.dates - differing_dates) + [share] * differing_dates

    def file_count(self, rows: int) -> int:
        """The number of files into which `rows` rows of a date are written."""
        return max(1, round(rows / _ROWS_PER_FILE))
