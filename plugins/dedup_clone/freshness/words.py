"""How times and what readers see are put into words, the same in every incident."""

from __future__ import annotations

from datetime import datetime, timedelta

from dedup_clone.freshness.facts import Facts
from dedup_clone.state.ledger import LedgerRecord


def clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def span(duration: timedelta) -> str:
    """Such as `45 s`, `12 min`, `3 h 05 min`, `2 d 4 h`."""
    seconds = max(0, round(duration.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def readers_see(facts: Facts, now: datetime) -> str:
    return seen(facts.live, facts.current.generation, now)


def seen(live: LedgerRecord | None, generation: int | None, now: datetime) -> str:
    """What a query of target answers while `generation` is committed; `live` is its record, if it is known."""
    if generation is None:
        return "no table yet: nothing was published"
    if live is None:
        return f"generation {generation}"
    return (
        f"snapshot {live.snapshot_id} (generation {live.generation}), which arrived {clock(live.arrived_at)}, "
        f"{span(now - live.arrived_at)} ago"
    )
