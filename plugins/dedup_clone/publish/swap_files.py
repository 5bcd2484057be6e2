"""Keeps what an attempt was allowed to swap beside it: whoever commits, heals, rolls back or watches reads it there."""

from __future__ import annotations

from dedup_clone.contract.records import to_json
from dedup_clone.publish.orders import SwapOrder
from dedup_clone.publish.services import Services


def keep_swap(services: Services, swap: SwapOrder) -> None:
    services.store.put(services.layout.swap_order(swap.attempt), to_json(swap))


def find_swap(services: Services, attempt: str) -> SwapOrder | None:
    """None when the attempt did not come so far, or was pruned."""
    return services.store.read_record(SwapOrder, services.layout.swap_order(attempt))
