"""Input and result of the rewrite of one date. Small records: they are sent between the driver and Spark tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from dedup_spark.parent import ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate
from dedup_spark.plans.written_date import DateCost, WrittenDate


class MergePolicy(StrEnum):
    """Which of two rows with the same key is retained.

    IN_ORDER: always the delivered one. LATE: the one with the higher update_id. BY_VALUE: the delivered one if its
    values differ.
    """

    IN_ORDER = "in order"
    LATE = "late"
    BY_VALUE = "by value"


@dataclass(frozen=True)
class RewriteTask:
    """One date to rewrite. `delivered` is None if no delivery has the date, `parent` if the parent lacks it.

    With `has_own_ids`, as in an existing table, delivered rows have update_ids of their own, else the delivery's. With
    `keeps_files` those of the parent's files that lose no row become files of the date; only other rows are written.
    """

    day: date
    policy: MergePolicy
    delivered: DeliveredDate | None
    has_own_ids: bool
    parent: ParentDate | None
    keeps_files: bool = False

    @property
    def deliveries(self) -> tuple[DeliveredDate, ...]:
        return (self.delivered,) if self.delivered else ()

    @property
    def bytes(self) -> int:
        """As stored, of delivery and parent."""
        return sum(part.bytes for part in (*self.deliveries, self.parent) if part)


@dataclass(frozen=True, kw_only=True)
class RewrittenDate(WrittenDate):
    """With `wrote_fingerprints` these are below the data folder; otherwise the parent's, if the same, are still right.

    `how` is appended to the reason for the plan.
    """

    how: str
    wrote_fingerprints: bool


@dataclass(frozen=True)
class DeclinedRewrite:
    """A date that could not be streamed after all, and why."""

    day: date
    reason: str
    cost: DateCost


RewriteOutcome = RewrittenDate | DeclinedRewrite
