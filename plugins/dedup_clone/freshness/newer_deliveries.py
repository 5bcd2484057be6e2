"""Tells which deliveries are newer than those that are live: of a later snapshot, or a correction of the newest one."""

from __future__ import annotations

from collections.abc import Iterable

from dedup_clone.contract.delivery import INT64_MAX, Delivery
from dedup_clone.freshness.feed_state import FeedState
from dedup_clone.state.ledger import LedgerRecord


def newest_live(live: LedgerRecord | None, included: Iterable[Delivery]) -> Delivery | None:
    """The newest of the deliveries that the live generation includes; None if nothing is live.

    A generation may include no delivery, as after a bootstrap. Then its highest update id counts as a snapshot id.
    """
    bootstrap = None if live is None else Delivery(live.snapshot_id, INT64_MAX)
    return max(included, default=bootstrap)


def latest_of_each_snapshot(deliveries: Iterable[Delivery]) -> set[Delivery]:
    return set({delivery.snapshot_id: delivery for delivery in sorted(deliveries)}.values())


def newer(state: FeedState, deliveries: Iterable[Delivery]) -> list[Delivery]:
    """Those of these deliveries that are newer than the live ones; of each snapshot only the latest not live one."""
    refused, held = (refusal.delivery for refusal in state.refused), (held.delivery for held in state.held)
    latest = latest_of_each_snapshot([*refused, *held, *state.excluded, *(w.delivery for w in state.waiting)])
    newest = newest_live(state.live, state.included)
    return [d for d in latest.intersection(deliveries) if newest is None or d > newest]
