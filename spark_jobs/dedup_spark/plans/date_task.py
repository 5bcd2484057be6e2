"""Defines what plans adopt and rewrite do for one date, and what any plan wrote for it, as records of Spark tasks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DataFile, KeyExample
from dedup_spark.parent import ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate, Validations


class MergePolicy(StrEnum):
    """Which row of a key is retained if both the newest delivery and the parent have the key.

    IN_ORDER: the delivered row; its snapshot id is at least the highest update_id of the parent's rows. LATE: the row
    with the higher update_id; if the ids are equal, the delivered row. BY_VALUE: the delivered row if its values
    differ, otherwise the parent's.
    """

    IN_ORDER = "in order"
    LATE = "late"
    BY_VALUE = "by value"


@dataclass(frozen=True)
class SketchedPart:
    """A sketch, at `uri`, of the rows that some files of one delivery of a date have. `digest`: of this sketch."""

    delivery: Delivery
    uri: str
    digest: str


@dataclass(frozen=True)
class DateTask:
    """One date for plan adopt, or for plan rewrite.

    `deliveries`: in ascending precedence; one with any other policy than IN_ORDER. Without a parent the policy is
    IN_ORDER. `parts`: what other tasks have read of the deliveries.
    """

    day: date
    deliveries: tuple[DeliveredDate, ...]
    parent: ParentDate | None
    is_adopted: bool = True
    policy: MergePolicy = MergePolicy.IN_ORDER
    parts: tuple[SketchedPart, ...] = field(default=(), compare=False)

    @property
    def newest(self) -> DeliveredDate:
        return self.deliveries[-1]

    @property
    def bytes(self) -> int:
        """The stored bytes of deliveries and parent."""
        return sum(dated.bytes for dated in (*self.deliveries, self.parent) if dated)

    def with_validations(self, found: Validations) -> DateTask:
        """The same task with the results, by URI, of the files that were just read."""
        return replace(self, deliveries=tuple(dated.with_validations(found) for dated in self.deliveries))


@dataclass(frozen=True, kw_only=True)
class WrittenDate:
    """What a plan wrote for one date.

    `files`: also those of the parent that are kept, which are copied later. `changed`: the number of rows whose values
    changed. `surplus_rows`: the number of surplus rows by the delivery's snapshot id. `key_fingerprint`: the digest by
    which the next publish checks the sketch that the plan has stored; None if it stored none. `cluster_overlap`: the
    share of blocks (0 to 1; a block is a row group, or a sorted run of rows) that overlap in the first clustering
    column; None without clustering, or if it is unknown. `how`: what was compared and written, as text for the
    manifest. `adopted_delivery`: the delivery whose rows the date has, beside survivors.
    """

    day: date
    files: tuple[DataFile, ...]
    new_keys: int
    changed: int
    survivors: int
    surplus_rows: dict[int, int]
    key_fingerprint: str | None
    examples: tuple[KeyExample, ...]
    cluster_overlap: float | None = None
    how: str = ""
    adopted_delivery: Delivery | None = None


# What a plan wrote, or why it did not: plan window then writes the date.
Outcome = WrittenDate | str
WrittenDates = dict[date, WrittenDate]
