"""What a data set looks like: how many rows and dates, how the snapshot differs from the state, what the keys are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

NEWEST_DATE = date(2026, 6, 30)
_ROWS_A_FILE = 500_000
_SKEW = 1.2


class Variant(StrEnum):
    """UNIFORM: differences everywhere, rows in random order. CONCENTRATED: all differences in the newest dates.

    SORTED: the rows of every file by key. SHUFFLED: state sorted, snapshot in random order. DUPLICATES: one snapshot
    row in a thousand once more, half of them with another value. SKEWED: a few dates hold most rows. LATE: the
    snapshot is older than most of the state. NARROW: stores and attributes lie in 32 bits, unlike in the table.
    """

    UNIFORM = "uniform"
    CONCENTRATED = "concentrated"
    SORTED = "sorted"
    SHUFFLED = "shuffled"
    DUPLICATES = "duplicates"
    SKEWED = "skewed"
    LATE = "late"
    NARROW = "narrow"


@dataclass(frozen=True)
class Shape:
    """`rows` of the snapshot in all `dates` together (the state has as many); shares are of the rows.

    `differing`: of ten differing rows four have another value, three are new and three are missing.
    `kept`: rows of the state that are older than its newest snapshot. `string_keys`: product_id is text.
    """

    rows: int
    dates: int = 13
    variant: Variant = Variant.UNIFORM
    differing: float = 0.001
    kept: float = 0.0005
    string_keys: bool = False
    seed: int = 7

    @property
    def name(self) -> str:
        keys = "-text" if self.string_keys else ""
        return f"{self.variant}-{self.rows}x{self.dates}-d{self.differing:g}-k{self.kept:g}{keys}-s{self.seed}"

    def days(self) -> list[date]:
        """Ascending."""
        return [NEWEST_DATE - timedelta(days=self.dates - 1 - n) for n in range(self.dates)]

    def rows_of_dates(self) -> list[int]:
        if self.variant is not Variant.SKEWED:
            return [self.rows // self.dates] * self.dates
        weights = [1 / (self.dates - n) ** _SKEW for n in range(self.dates)]
        return [max(1, int(self.rows * weight / sum(weights))) for weight in weights]

    def differing_of_dates(self) -> list[float]:
        if self.variant is not Variant.CONCENTRATED:
            return [self.differing] * self.dates
        touched = max(1, self.dates // 13)
        share = min(1.0, self.differing * self.dates / touched)
        return [0.0] * (self.dates - touched) + [share] * touched

    def files_of(self, rows: int) -> int:
        """How many files a date of so many rows has."""
        return max(1, round(rows / _ROWS_A_FILE))
