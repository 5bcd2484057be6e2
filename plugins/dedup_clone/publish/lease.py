"""Acquires a feed's lease for a run that is about to make a generation."""

from __future__ import annotations

from dedup_clone.contract.errors import LostRace
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent, IntentKind


def acquire_lease(services: Services, kind: IntentKind, *, dag_id: str, run_id: str, parent: int | None) -> Intent:
    """Acquire the lease and return its intent.

    `parent` is the generation that was live when the run decided what to do; the new generation builds on it.

    Raises LeaseHeld, and LostRace when another generation was committed or another environment took the feed over since
    that decision, or when another process changes CURRENT at the same moment.
    """
    intent = services.current.acquire_lease(
        lambda live, generation: Intent.begin(
            kind,
            environment=services.environment,
            dag_id=dag_id,
            run_id=run_id,
            parent=live,
            generation=generation,
            now=services.now(),
        )
    )
    if intent.parent != parent:
        services.current.release(intent.attempt)
        raise LostRace(f"Generation [{intent.parent}] was committed meanwhile: this task tries again by itself.")
    return intent
