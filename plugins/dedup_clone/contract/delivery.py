"""Identifies deliveries, describes their files, and selects the waiting deliveries that a publish applies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.errors import ContractViolation

_NAME = re.compile(r"(0|[1-9][0-9]{0,18})-([1-9][0-9]{0,18})")
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, order=True)
class Delivery:
    """One landing of a snapshot, identified by the snapshot's id and the object generation of the marker.

    Deliveries are ordered by precedence: by snapshot id, and within one id by time. Each new version of an object has
    a greater object generation, so `marker_generation` gives the order in time.
    """

    snapshot_id: int
    marker_generation: int

    @property
    def name(self) -> str:
        """`<snapshot id>-<marker generation>`, as used in object names, run ids and manifests."""
        return f"{self.snapshot_id}-{self.marker_generation}"

    @classmethod
    def parse(cls, name: str) -> Delivery:
        """The delivery with this `name`. Raises ContractViolation."""
        match = _NAME.fullmatch(name)
        if not match:
            raise ContractViolation(f"[{name}] is no delivery name, expected [<snapshot id>-<marker generation>].")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class LandedObject:
    """One object of a delivery as it was when the delivery was registered. `size` in bytes.

    `generation` is the object's version on Cloud Storage (object generation).
    """

    name: str
    generation: int
    crc32c: str
    size: int


@dataclass(frozen=True)
class Arrival:
    """The record of one delivery, written once when it is registered: the inventory of its objects.

    `bucket` is the landing bucket, `folder` the snapshot's folder in it and `marker` the marker's object name.
    `arrived_at` is the marker's creation time; the freshness SLA is measured from it. `late_objects` are newer than
    the marker; a delivery that has some is refused.
    """

    feed: str
    delivery: Delivery
    bucket: str
    folder: str
    marker: str
    arrived_at: datetime
    objects: tuple[LandedObject, ...]
    late_objects: tuple[str, ...]


@dataclass(frozen=True)
class Backlog:
    """The waiting deliveries: those to `apply`, in ascending precedence, and those that are `superseded`.

    A superseded delivery changes nothing: a later delivery of the same snapshot id replaces it.
    """

    apply: tuple[Delivery, ...]
    superseded: tuple[Delivery, ...]


def split_backlog(waiting: Iterable[Delivery], included: Iterable[Delivery], excluded: Iterable[Delivery]) -> Backlog:
    """Split the waiting deliveries into those to apply and those that are superseded.

    Deliveries that are already `included` in the table, and those `excluded` by a rollback, are neither. A delivery is
    superseded if a later delivery of its snapshot id is included or waits.
    """
    included_deliveries = set(included)
    candidates = sorted(set(waiting) - included_deliveries - set(excluded))
    newest: dict[int, int] = {}
    for delivery in [*included_deliveries, *candidates]:
        newest[delivery.snapshot_id] = max(newest.get(delivery.snapshot_id, 0), delivery.marker_generation)
    apply = tuple(d for d in candidates if d.marker_generation == newest[d.snapshot_id])
    return Backlog(apply=apply, superseded=tuple(d for d in candidates if d not in apply))
