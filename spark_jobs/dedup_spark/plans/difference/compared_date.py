"""Records which deliveries of one date are compared with the parent, and by which rule rows win."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from dedup_spark.parent import ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate


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
class ComparedDate:
    """One date, which plan adopt can handle if its policy is IN_ORDER.

    `newest`: its newest delivery. `older`: its other deliveries, in ascending precedence; none with other policies.
    Without a parent the policy is IN_ORDER. `has_own_ids`: the delivered rows have update_ids of their own, because
    they come from an existing table; otherwise the update_id of all is the delivery's snapshot id.
    """

    day: date
    newest: DeliveredDate
    older: tuple[DeliveredDate, ...]
    parent: ParentDate | None
    policy: MergePolicy = MergePolicy.IN_ORDER
    has_own_ids: bool = False

    @property
    def deliveries(self) -> tuple[DeliveredDate, ...]:
        return (self.newest, *self.older)

    @property
    def bytes(self) -> int:
        """The stored bytes of deliveries and parent."""
        return sum(delivered.bytes for delivered in self.deliveries) + (self.parent.bytes if self.parent else 0)
