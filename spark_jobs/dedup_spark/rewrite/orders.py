"""What a task is told about one date to write anew, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from dedup_clone.contract.manifest import DataFile, KeyExample
from dedup_spark import storage
from dedup_spark.adopt.orders import DateCost


class Regime(StrEnum):
    """Which of two rows of one key counts: the delivered one always; the one of the higher update_id; the delivered
    one where its values differ."""

    IN_ORDER = "in order"
    LATE = "late"
    BY_VALUE = "by value"


@dataclass(frozen=True)
class DeliveredFiles:
    """The files of the one delivery that has the date, as (URI, rows), all of them of this date alone.

    `source` is its number among the applied deliveries. Rows of an existing table, `has_own_ids`, have update_ids of
    their own; otherwise it is `snapshot_id`.
    """

    source: int
    has_own_ids: bool
    snapshot_id: int
    files: tuple[tuple[str, int], ...]

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.files)


@dataclass(frozen=True)
class HeldDate:
    """The parent's date. Fingerprints are of keys and values that its newest delivery had, None when not kept."""

    data_uri: str
    files: tuple[DataFile, ...]
    rows: int
    survivors: int
    max_update_id: int
    key_fingerprint: str | None
    content_fingerprint: str | None
    differing_share: float | None

    @property
    def bytes(self) -> int:
        """As stored."""
        return sum(file.size for file in self.files)

    def uri(self, file: DataFile) -> str:
        return storage.join(self.data_uri, file.path)


@dataclass(frozen=True)
class RewriteOrder:
    """`delivered` is None for a date that no delivery has, `held` for one that the parent lacks."""

    day: date
    regime: Regime
    delivered: DeliveredFiles | None
    held: HeldDate | None
    bytes: int

    @property
    def objects(self) -> int:
        return (len(self.delivered.files) if self.delivered else 0) + (len(self.held.files) if self.held else 0)


@dataclass(frozen=True)
class RewrittenDate:
    """`files` is None where no row changed: the parent's files stay. Fingerprints are those for the next publish.

    `wrote_fingerprints` says whether they are new: else the parent's, if it has the same, are still right. `ties` by
    source number. `how` is the second half of the reason.
    """

    day: date
    files: tuple[DataFile, ...] | None
    rows: int
    new_keys: int
    changed: int
    survivors: int
    ties: dict[int, int]
    how: str
    key_fingerprint: str | None
    content_fingerprint: str | None
    wrote_fingerprints: bool
    examples: tuple[KeyExample, ...]
    cost: DateCost


@dataclass(frozen=True)
class LeftToSpark:
    """A date that could not be streamed after all, and why."""

    day: date
    reason: str
    cost: DateCost
