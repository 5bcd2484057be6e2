"""Which waiting deliveries are folded in, in which order, and which are superseded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dedup_clone.contract.delivery import Delivery


@dataclass(frozen=True)
class Backlog:
    """`apply` in ascending precedence (the last one wins); `superseded` changes nothing and is accounted for."""

    apply: tuple[Delivery, ...]
    superseded: tuple[Delivery, ...]


def fold_backlog(waiting: Iterable[Delivery], folded: Iterable[Delivery], excluded: Iterable[Delivery]) -> Backlog:
    """Sort waiting deliveries into those to apply and those that a later delivery of the same id supersedes.

    A delivery is superseded when a later delivery of its id is in already, or waits beside it: the producer has
    corrected it. Excluded and already folded deliveries are in neither list.
    """
    done, out = set(folded), set(excluded)
    candidates = sorted(set(waiting) - done - out)
    newest: dict[int, int] = {}
    for delivery in [*done, *candidates]:
        newest[delivery.snapshot_id] = max(newest.get(delivery.snapshot_id, 0), delivery.marker_generation)
    apply = tuple(d for d in candidates if d.marker_generation == newest[d.snapshot_id])
    return Backlog(apply=apply, superseded=tuple(d for d in candidates if d not in apply))
