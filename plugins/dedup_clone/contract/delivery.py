"""Records of deliveries and of their files, and the rule by which a publish selects the deliveries that it applies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

_DELIVERY_NAME = re.compile(r"(0|[1-9][0-9]{0,18})-([1-9][0-9]{0,18})")
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, order=True)
class Delivery:
    """One landing of a snapshot, identified by the snapshot's id and the object generation of the marker.

    Deliveries are ordered by precedence: by snapshot id, and deliveries of one snapshot id by time. Each write gives
    an object a greater object generation, so `marker_generation` gives the order in time.
    """

    snapshot_id: int
    marker_generation: int

    @property
    def name(self) -> str:
        """`<snapshot id>-<marker generation>`, as used in object names, run ids and manifests."""
        return f"{self.snapshot_id}-{self.marker_generation}"

    @classmethod
    def parse(cls, name: str) -> Delivery | None:
        """The delivery with this `name`; None if the text is no delivery name."""
        match = _DELIVERY_NAME.fullmatch(name)
        return cls(int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True)
class LandedObject:
    """One object of a delivery as it was when the delivery was registered. `size` in bytes.

    `name` is its full name in the landing bucket. `generation` is its version on Cloud Storage (object generation).
    `crc32c` is its checksum as Cloud Storage shows it, in Base64.
    """

    name: str
    generation: int
    crc32c: str
    size: int


@dataclass(frozen=True)
class Arrival:
    """The inventory of one delivery's objects, written once, when the delivery is registered.

    `bucket` is the landing bucket, `folder` the snapshot's folder in this bucket, and `marker` the marker's full object
    name. `arrived_at` is the marker's creation time, from which the freshness SLA is measured. `objects` are all
    objects in the folder except the marker. `late_objects` are the full names of those that are newer than the marker.
    A delivery with a late data file is refused.
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

    A superseded delivery changes nothing: a later delivery of the same snapshot id replaces it. A `held` delivery was
    stopped by a check on the data: it does not wait, but is published only by a replay of exactly this delivery.
    """

    apply: tuple[Delivery, ...]
    superseded: tuple[Delivery, ...]
    held: tuple[Delivery, ...] = ()


def split_backlog(
    waiting: Iterable[Delivery],
    included: Iterable[Delivery],
    excluded: Iterable[Delivery],
    held: Collection[Delivery] = (),
) -> Backlog:
    """Split the waiting deliveries into those to apply, those that are superseded, and those that are `held`.

    Deliveries that the live generation includes (`included`), or that a rollback took out (`excluded`), are left out. A
    delivery is superseded if a later delivery of its snapshot id is included, waits or is held.
    """
    included_deliveries = set(included)
    candidates = sorted(set(waiting) - included_deliveries - set(excluded))
    newest: dict[int, int] = {}
    for delivery in [*included_deliveries, *candidates]:
        newest[delivery.snapshot_id] = max(newest.get(delivery.snapshot_id, 0), delivery.marker_generation)
    latest = [d for d in candidates if d.marker_generation == newest[d.snapshot_id]]
    return Backlog(
        apply=tuple(d for d in latest if d not in held),
        superseded=tuple(d for d in candidates if d.marker_generation != newest[d.snapshot_id]),
        held=tuple(d for d in latest if d in held),
    )


def newly_live(applied: Iterable[Delivery], published: Iterable[Delivery]) -> list[Delivery]:
    """Those of the `applied` deliveries that were never live before, in ascending precedence.

    `published`: what the live generation includes, and what a rollback took out. A delivery counts as live before if
    it, or a later delivery of its snapshot, is among them.
    """
    latest = {delivery.snapshot_id: delivery for delivery in sorted(published)}
    return [d for d in sorted(applied) if d.snapshot_id not in latest or latest[d.snapshot_id] < d]
