"""Records the task of one date for plan adopt, and its outcome; driver and Spark tasks exchange these small records."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DataFile
from dedup_spark.parent import ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate
from dedup_spark.plans.written_date import DeclinedDate, WrittenDate


@dataclass(frozen=True)
class AdoptTask:
    """One date to adopt. `newest`: its newest delivery, whose rows win.

    The snapshot id of `newest` is at least the highest update_id of `parent`. `older`: the date's other deliveries, in
    ascending precedence. `threads`: how many threads read the date.
    """

    day: date
    newest: DeliveredDate
    older: tuple[DeliveredDate, ...]
    parent: ParentDate | None
    threads: int = field(default=1, compare=False)

    @property
    def deliveries(self) -> tuple[DeliveredDate, ...]:
        return (self.newest, *self.older)

    @property
    def bytes(self) -> int:
        """The stored bytes of deliveries and parent."""
        return sum(delivered.bytes for delivered in self.deliveries) + (self.parent.bytes if self.parent else 0)


@dataclass(frozen=True, kw_only=True)
class AdoptedDate(WrittenDate):
    """A date that has the rows of its newest delivery, `delivery`, and survivors. `files`: copied and written files.

    `reason`: what was compared and written anew, as text for the manifest.
    """

    files: tuple[DataFile, ...]
    delivery: Delivery
    reason: str


AdoptOutcome = AdoptedDate | DeclinedDate
