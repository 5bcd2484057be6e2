"""Deliveries: one landing of a snapshot, named by its id and its marker's object generation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.errors import ContractViolation

_NAME = re.compile(r"(0|[1-9][0-9]{0,18})-([1-9][0-9]{0,18})")
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, order=True)
class Delivery:
    """Ordered by precedence: the higher snapshot id first counts, then the later delivery of the same id.

    Object generations of one marker grow with time, so the greater one is the later delivery.
    """

    snapshot_id: int
    marker_generation: int

    @property
    def name(self) -> str:
        """`<snapshot id>-<marker generation>`: names records, run ids and manifest entries."""
        return f"{self.snapshot_id}-{self.marker_generation}"

    @classmethod
    def parse(cls, name: str) -> Delivery:
        match = _NAME.fullmatch(name)
        if not match:
            raise ContractViolation(f"[{name}] is no delivery name, expected [<snapshot id>-<marker generation>].")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class LandedObject:
    """One object of a delivery as it was when the delivery was noticed. `size` in bytes."""

    name: str
    generation: int
    crc32c: str
    size: int


@dataclass(frozen=True)
class Arrival:
    """The record of one delivery, written once when it is noticed: its frozen inventory.

    `arrived_at` is the marker's creation time: the clock of the freshness promise starts there. `late_objects` are
    objects newer than the marker: their presence refuses the delivery.
    """

    feed: str
    delivery: Delivery
    bucket: str
    folder: str
    marker: str
    arrived_at: datetime
    objects: tuple[LandedObject, ...]
    late_objects: tuple[str, ...]
