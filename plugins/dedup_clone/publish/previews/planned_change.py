"""One difference between a feed file and its published table, as `make plan` shows it."""

from __future__ import annotations

from dataclasses import dataclass

NO_COST = "nothing"


@dataclass(frozen=True)
class PlannedChange:
    """One difference between the feed file and the published table.

    `change`: the difference. `effect`: what the next publish does about it. `readers`: what readers notice. `cost`:
    what the change costs, in the next publish or in each from now on.
    """

    change: str
    effect: str
    readers: str
    cost: str = NO_COST
