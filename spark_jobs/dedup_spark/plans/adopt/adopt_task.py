"""Records the task of one date for plan adopt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dedup_spark.parent import ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate


@dataclass(frozen=True)
class AdoptTask:
    """One date to adopt. `newest`: its newest delivery, whose rows win.

    The snapshot id of `newest` is at least the highest update_id of `parent`. `older`: the date's other deliveries, in
    ascending precedence.
    """

    day: date
    newest: DeliveredDate
    older: tuple[DeliveredDate, ...]
    parent: ParentDate | None

    @property
    def deliveries(self) -> tuple[DeliveredDate, ...]:
        return (self.newest, *self.older)

    @property
    def bytes(self) -> int:
        """The stored bytes of deliveries and parent."""
        return sum(delivered.bytes for delivered in self.deliveries) + (self.parent.bytes if self.parent else 0)
