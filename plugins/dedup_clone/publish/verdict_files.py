"""Keeps the verdicts of a phase beside its attempt."""

from __future__ import annotations

from dedup_clone.checks.verdicts import Verdicts
from dedup_clone.contract.records import to_json
from dedup_clone.publish.services import Services


def keep(services: Services, attempt: str, verdicts: Verdicts) -> None:
    """Write the verdicts into the attempt's folder, and one log line each."""
    services.store.put(services.layout.verdicts(attempt, verdicts.phase), to_json(verdicts))
    for item in verdicts.items:
        services.fact(f"check {item}")
