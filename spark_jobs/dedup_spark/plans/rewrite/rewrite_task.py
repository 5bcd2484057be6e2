"""Records the task of one date for plan rewrite."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from dedup_spark.parent import ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate


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
