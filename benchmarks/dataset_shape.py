"""The parameters of a data set: its rows and dates, how the snapshot differs from the state, and the types of keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

NEWEST_DATE = date(2026, 6, 30)
_ROWS_PER_FILE = 500_000
_SKEW = 1.2


class Variant(StrEnum):
    """UNIFORM: differences in all dates, rows in random order. CONCENTRATED: all differences in the newest dates.

    SORTED: the rows of every file are sorted by key. STATE_SORTED: only those of the state are; the snapshot's are in
    random order. DUPLICATES: one snapshot row in a thousand occurs twice, half of them with another value. SKEWED: a
    few dates have most rows. LATE: the snapshot is older than most of the state. NARROW: stores and attributes are
    32-bit integers in the files.
    """

    UNIFORM = "uniform"
    CONCENTRATED = "concentrated"
    SORTED = "sorted"
    STATE_SORTED = "shuffled"
    DUPLICATES = "duplicates"
    SKEWED = "skewed"
    LATE = "late"
    NARROW = "narrow"


@dataclass(frozen=True)
class DatasetShape:
    """`rows`: of the snapshot in all dates together; the state has about the same number.

    `differing`: the share of rows that differ; 40 % of them have another value, 30 % are new and 30 % missing.
    `survivor_share`: the share of the state's rows that its newest snapshot lacks. `string_keys`: product_id is text.
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
        if self.variant is not Variant.SKEWED:
            return [self.rows // self.dates] * self.dates
        weights = [1 / (self.dates - number) ** _SKEW for number in range(self.dates)]
        return [max(1, int(self.rows * weight / sum(weights))) for weight in weights]

    def differing_share_by_date(self) -> list[float]:
        if self.variant is not Variant.CONCENTRATED:
            return [self.differing] * self.dates
        differing_dates = max(1, self.dates // 13)
        share = min(1.0, self.differing * self.dates / differing_dates)
        return [0.0] * (self.dates - differing_dates) + [share] * differing_dates

    def files_of(self, rows: int) -> int:
        """The number of files of a date with `rows` rows."""
        return max(1, round(rows / _ROWS_PER_FILE))
