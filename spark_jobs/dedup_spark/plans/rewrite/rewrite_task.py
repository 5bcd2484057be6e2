"""Records the task of one date for plan rewrite, and its outcome; driver and Spark tasks exchange these records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from dedup_spark.parent import ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate
from dedup_spark.plans.written_date import DeclinedDate, WrittenDate


class MergePolicy(StrEnum):
    """Which row of a key is retained if both the delivery and the parent have the key.

    IN_ORDER: the delivered row. LATE: the row with the higher update_id; if the ids are equal, the delivered row.
    BY_VALUE: the delivered row if its values differ, otherwise the parent's.
    """

    IN_ORDER = "in order"
    LATE = "late"
    BY_VALUE = "by value"


@dataclass(frozen=True)
class RewriteTask:
    """One date to rewrite. `delivered` is None if no delivery has the date; `parent` is None if the parent lacks it.

    `has_own_ids`: the delivered rows have update_ids of their own, because they come from an existing table; otherwise
    the update_id of all is the delivery's snapshot id. `keeps_files`: the parent's files of which no row is removed are
    copied, and only rows that these files lack are written.
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
        """The stored bytes of delivery and parent."""
        return sum(dated.bytes for dated in (*self.deliveries, self.parent) if dated)


@dataclass(frozen=True, kw_only=True)
class RewrittenDate(WrittenDate):
    """A date that was rewritten. `how`: what was compared; it is appended to the reason for the plan.

    `wrote_fingerprints`: whether the date's fingerprints were written below the data folder. If not, and if the
    parent's entry has the same digest, the parent's stored fingerprints are copied later.
    """

    how: str
    wrote_fingerprints: bool


RewriteOutcome = RewrittenDate | DeclinedDate
