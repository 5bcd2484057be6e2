"""Tells which deliveries are newer than those that are live: of a later snapshot, or a correction of the newest one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def describe_newer_not_live(state: FeedState) -> Iterator[str]:
    """One text each for held deliveries, for newer ones that were refused, and for those that a rollback took out.

    Of each snapshot only the latest delivery counts, and if that one waits, none.
    """
    if state.held:
        newest = state.held[-1]
        count = f"{len(state.held)} deliveries are held, the last of snapshot" if len(state.held) > 1 else "snapshot"
        is_held = "" if len(state.held) > 1 else " is held"
        yield f"{count} {newest.delivery.snapshot_id}{is_held}: {'; '.join(r.in_short for r in newest.failed)}"
    or_more = " or more" if state.may_lack_refusals else ""
    yield from _describe(state, newer(state, [refusal.delivery for refusal in state.refused]), "refused", or_more)
    yield from _describe(state, newer(state, state.excluded), "excluded by a rollback")


def newer(state: FeedState, deliveries: Iterable[Delivery]) -> list[Delivery]:
    """Those of these deliveries that are newer than the live ones; of each snapshot only the latest not live one."""
    refused, held = (refusal.delivery for refusal in state.refused), (held.delivery for held in state.held)
    latest = latest_of_each_snapshot([*refused, *held, *state.excluded, *(w.delivery for w in state.waiting)])
    newest = newest_live(state.live, state.included)
    return [d for d in latest.intersection(deliveries) if newest is None or d > newest]


def _describe(state: FeedState, newer: list[Delivery], what_happened: str, or_more: str = "") -> Iterator[str]:
    newest = newest_live(state.live, state.included)
    corrections = [d for d in newer if newest is not None and d.snapshot_id == newest.snapshot_id]
    if corrections:
        yield f"a correction of snapshot {corrections[0].snapshot_id} was {what_happened}"
    if count := len(newer) - len(corrections):
        yield f"{count}{or_more}{'' if newest is None else ' newer'} {what_happened}"
