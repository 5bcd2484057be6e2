"""Keeps the verdicts of a phase beside its attempt."""

from __future__ import annotations

import logging

from dedup_clone.checks.verdicts import Level, Verdicts
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import to_json
from dedup_clone.publish.services import Services

_LOG_LEVELS = {Level.PASS: logging.INFO, Level.WARN: logging.WARNING, Level.FAIL: logging.ERROR}


def keep(services: Services, attempt: str, verdicts: Verdicts, *, snapshot_id: int, generation: int) -> None:
    """Write the verdicts into the attempt's folder, and one log line each."""
    services.store.put(services.layout.verdicts(attempt, verdicts.phase), to_json(verdicts))
    for item in verdicts.items:
        level = _LOG_LEVELS[item.level]
        services.fact(f"check {item}", snapshot_id=snapshot_id, generation=generation, level=level)


def find_kept(services: Services, attempt: str, phase: str) -> Verdicts | None:
    """The verdicts that an attempt kept; None when it did not come so far."""
    return services.store.read_record(Verdicts, services.layout.verdicts(attempt, phase))


def read_kept(services: Services, attempt: str, phase: str) -> Verdicts:
    """The verdicts that an attempt must have kept. Raises ContractViolation when they are gone."""
    verdicts = find_kept(services, attempt, phase)
    if verdicts is None:
        name = services.store.uri(services.layout.verdicts(attempt, phase))
        raise ContractViolation(f"[{name}] is gone: restore it (soft delete keeps it seven days).")
    return verdicts
