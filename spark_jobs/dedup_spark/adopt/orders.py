"""What a task is told about one date, and what it hands back. Small records: they travel between driver and tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DataFile, KeyExample


@dataclass(frozen=True)
class LandedPart:
    """One file of a delivery with rows of this date only; generation and crc32c as its inventory froze them.

    `is_as_written`: the date may have the file as it is. Not so, and `rows` 0, where the file was not opened yet.
    """

    uri: str
    size: int
    generation: int
    crc32c: str
    rows: int
    is_as_written: bool


@dataclass(frozen=True)
class DeliveredDate:
    """A delivery's files of the date. `source` is its number among the applied deliveries."""

    source: int
    delivery: Delivery
    files: tuple[LandedPart, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """As stored."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class StateDate:
    """The parent's date. `base_id` is its highest update_id: rows with it are the base, the others are survivors.

    `key_fingerprint` is of the base, None when the parent keeps none. `differing_share` is what the last publish saw.
    """

    data_uri: str
    files: tuple[DataFile, ...]
    rows: int
    base_id: int
    key_fingerprint: str | None
    differing_share: float | None

    @property
    def bytes(self) -> int:
        """As stored."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class DateOrder:
    """`older` deliveries ascend in precedence; all are below `newest`, whose id is above every id of `state`."""

    day: date
    newest: DeliveredDate
    older: tuple[DeliveredDate, ...]
    state: StateDate | None
    threads: int

    @property
    def objects(self) -> int:
        return len(self.newest.files)

    @property
    def bytes(self) -> int:
        """As stored, of both sides."""
        landed = sum(part.bytes for part in (self.newest, *self.older))
        return landed + (self.state.bytes if self.state else 0)


@dataclass(frozen=True)
class DateCost:
    """Bytes as stored, seconds of wall time."""

    bytes_read: int
    bytes_written: int
    seconds: float


@dataclass(frozen=True)
class AdoptedDate:
    """A date whose survivors are in the new data folder; `files` are theirs until the delivery's own were copied.

    Of landed files named in `mended`, by URI, what counts is among `files` already.
    `ties` by source number, surplus rows inside one delivery.
    """

    day: date
    delivery: Delivery
    mended: frozenset[str]
    files: tuple[DataFile, ...]
    new_keys: int
    changed: int | None
    survivors: int
    ties: dict[int, int]
    reason: str
    key_fingerprint: str
    content_fingerprint: str | None
    examples: tuple[KeyExample, ...]
    cost: DateCost


@dataclass(frozen=True)
class DeclinedDate:
    """A date that another plan has to write. `key_fingerprint` is of the newest delivery's distinct keys, if known."""

    day: date
    reason: str
    key_fingerprint: str | None
    cost: DateCost


Outcome = AdoptedDate | DeclinedDate
