"""Takes a feed's lease: publish, rollback and bootstrap do it alike."""

from __future__ import annotations

from typing import Protocol

from dedup_clone.contract.errors import LostRace
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent, IntentKind


class Holder(Protocol):
    """The run that asks for the lease."""

    @property
    def dag_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...


def take_lease(services: Services, kind: IntentKind, holder: Holder, *, parent: int | None) -> Intent:
    """Take the lease on top of `parent`, the generation that was looked at before.

    Raises LeaseHeld, and LostRace when another generation was committed since that look.
    """
    intent = services.current.take_lease(
        lambda live, generation: Intent.begin(
            kind,
            dag_id=holder.dag_id,
            run_id=holder.run_id,
            parent=live,
            generation=generation,
            now=services.now(),
        )
    )
    if intent.parent != parent:
        services.current.release(intent.attempt)
        raise LostRace(f"Generation [{intent.parent}] was committed meanwhile: this task tries again by itself.")
    return intent
