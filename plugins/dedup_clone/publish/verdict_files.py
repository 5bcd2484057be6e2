"""Keeps the verdicts of a phase beside its attempt."""

from __future__ import annotations

from dedup_clone.checks.verdicts import Verdicts
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.publish.services import Services


def keep(services: Services, attempt: str, verdicts: Verdicts) -> None:
    """Write the verdicts into the attempt's folder, and one log line each."""
    services.store.put(services.layout.verdicts(attempt, verdicts.phase), to_json(verdicts))
    for item in verdicts.items:
        services.fact(f"check {item}")


def read_kept(services: Services, attempt: str, phase: str) -> Verdicts:
    """The verdicts that an attempt kept. Raises ContractViolation when they are gone."""
    name = services.layout.verdicts(attempt, phase)
    stored = services.store.read(name)
    if stored is None:
        raise ContractViolation(f"[{services.store.uri(name)}] is gone: restore it (soft delete keeps it seven days).")
    return from_json(Verdicts, stored.text, where=services.store.uri(name))
