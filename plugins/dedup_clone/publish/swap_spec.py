"""The record of what a swap may make live, and the clone's job, whose parameters it has. `swap.py` carries it out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dedup_clone.contract.attempt import Kind, Swap
from dedup_clone.publish.attempt_jobs import SWAP_STEP, query_configuration
from dedup_clone.publish.services import Services


@dataclass(frozen=True)
class SwapSpec:
    """What was checked and is allowed to go live: staging as of `checked_at`.

    `generation`, `parent` and `snapshot` are text, because the swap's SQL takes them as text parameters; `parent` is
    empty for a first generation. `manifest` is the manifest's digest. `description`, `expiration_days`: the text, and
    the days for which target keeps a partition, that the swap sets on target. `bytes_billed` is that of the feed's own
    queries. `staging_bytes`: logical size of the checked table. `options`: the feed file's options that the swap sets
    on target (see warehouse/table_options.py). `way`: see publish/swap.py. `previous_days`: how long the table that is
    replaced stays as `FEED_previous`; 0 if it does not.
    """

    attempt: str
    generation: str
    parent: str
    snapshot: str
    manifest: str
    description: str
    checked_at: datetime
    expiration_days: int
    bytes_billed: int
    staging_bytes: int
    options: dict[str, str] = field(default_factory=dict)
    way: Swap = Swap.CLONE
    previous_days: int = 0


def swap_way(services: Services, kind: Kind, parent: int | None) -> Swap:
    """How an attempt swaps. A load keeps target's layout, so a rebuild clones, and so does a first publish."""
    is_copied = parent is not None and kind is not Kind.REBUILD
    return services.feed.publish.swap if is_copied else Swap.CLONE


def kept_days(services: Services, kind: Kind) -> int:
    """For how many days the swap keeps the table that it replaces. An erasure keeps none: it has the erased rows."""
    return 0 if kind is Kind.ERASE else services.feed.table.previous_days


def find_swap(services: Services, attempt: str) -> SwapSpec | None:
    """What the attempt was allowed to swap; None if it failed earlier or was pruned."""
    return services.store.read_record(SwapSpec, services.layout.swap_spec(attempt))


def swap_configuration(services: Services, swap: SwapSpec, step: str = SWAP_STEP) -> dict[str, Any]:
    """The configuration of the job that replaces target with a clone of staging as it was checked."""
    options = services.feed.table.options
    sql = services.warehouse.render(
        "publish/swap_target.sql", names=services.names, options=options, previous_days=swap.previous_days
    )
    names = ("parent", "generation", "snapshot", "manifest", "description")
    parameters = {
        "target": ("STRING", services.names.target_table),
        **{name: ("STRING", getattr(swap, name)) for name in names},
        "checked_at": ("TIMESTAMP", swap.checked_at.isoformat()),
        "expiration_days": ("FLOAT64", str(swap.expiration_days)),
    }
    return query_configuration(services, step, sql, parameters)
