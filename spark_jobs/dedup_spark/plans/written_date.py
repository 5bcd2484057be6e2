"""Records what a plan wrote for one date. Spark tasks return these small records to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DataFile, KeyExample


@dataclass(frozen=True)
class DeclinedDate:
    """A date that plan window has to write, for a reason that another plan found when it read the rows."""

    day: date
    reason: str


@dataclass(frozen=True, kw_only=True)
class WrittenDate:
    """What a plan wrote for one date.

    `files`: None if the plan wrote none, because no row changed; the parent's files are then copied forward.
    `changed`: the number of rows whose values changed; None if values were not compared. `surplus_rows`: the number of
    surplus rows by the delivery's snapshot id. `key_fingerprint`: the digest by which the next publish checks the
    stored sketch; None if there is none that it may use. `cluster_overlap`: the share of
    blocks (0 to 1; a block is a row group, or a sorted run of rows) that overlap in the first clustering column; None
    without clustering, or if it is unknown. `how`: what was compared and written, as text for the manifest.
    `adopted_delivery`: the delivery whose rows the date has, beside survivors. `wrote_sketch`: whether the date's
    sketch was written below the data folder. If not, and if the parent's entry has the same digest, the parent's stored
    sketch is copied later.
    """

    day: date
    files: tuple[DataFile, ...] | None
    new_keys: int
    changed: int | None
    survivors: int
    surplus_rows: dict[int, int]
    key_fingerprint: str | None
    examples: tuple[KeyExample, ...]
    cluster_overlap: float | None = None
    how: str = ""
    adopted_delivery: Delivery | None = None
    wrote_sketch: bool = False


Outcome = WrittenDate | DeclinedDate
WrittenDates = dict[date, WrittenDate]
