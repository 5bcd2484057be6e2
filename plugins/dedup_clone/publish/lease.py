"""Refuses feeds that are not to be worked on, and acquires the lease for a run that is about to make a generation."""

from __future__ import annotations

from dedup_clone.contract.errors import ConfigurationError, ContractViolation, LostRace
from dedup_clone.contract.kind import Kind
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Current, Intent


def require_in_use(services: Services) -> None:
    """Raise ConfigurationError when the feed is retired."""
    retired = services.retired.read()
    if retired is not None:
        raise ConfigurationError(
            f"Feed [{services.feed.feed}] was retired at {retired.retired_at:%Y-%m-%d %H:%M} UTC by run "
            f"[{retired.run_id}]: nothing was done. To use it again from its beginning, delete "
            f"[{services.store.uri(services.retired.name)}]."
        )


def restore_records(feed: str) -> str:
    """The next step when CURRENT is lost."""
    return f"Run `make recover FEED={feed} APPLY=1` (docs/runbook.md, lost records)."


def require_own_feed(services: Services) -> Current:
    """Return CURRENT.

    Raises FeedHeldElsewhere when another environment publishes the feed, ConfigurationError when it is retired,
    ContractViolation when CURRENT was deleted.
    """
    current = services.current.read_for(services.environment)
    require_in_use(services)
    if services.current.is_lost(current):
        raise ContractViolation(
            f"[{services.store.uri(services.layout.current)}] is gone, so nobody knows what is published: records of "
            f"feed [{services.feed.feed}] are lost. {restore_records(services.feed.feed)}"
        )
    return current


def acquire_lease(services: Services, kind: Kind, *, dag_id: str, run_id: str, parent: int | None) -> Intent:
    """Acquire the lease and return its intent.

    `parent` is the generation that was live when the run decided what to do; the new generation builds on it.

    Raises LeaseHeld, FeedHeldElsewhere when another environment publishes the feed, and LostRace when another
    generation was committed since that decision, or when another process changes CURRENT at the same moment.
    """
    intent = services.current.acquire_lease(
        services.environment,
        lambda live, generation: Intent.begin(
            kind, dag_id=dag_id, run_id=run_id, parent=live, generation=generation, now=services.now()
        ),
    )
    if intent.parent != parent:
        services.current.release(intent.attempt)
        raise LostRace(f"Generation [{intent.parent}] was committed meanwhile: this task tries again by itself.")
    return intent
