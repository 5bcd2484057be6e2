"""Keeps the verdicts of a phase beside its attempt."""

from __future__ import annotations

import logging

from dedup_clone.checks.verdicts import Level, Verdicts
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.publish.services import Services

_LOG_LEVELS = {Level.PASS: logging.INFO, Level.WARN: logging.WARNING, Level.FAIL: logging.ERROR}


def keep(services: Services, attempt: str, verdicts: Verdicts, *, snapshot_id: int, generation: int) -> None:
    """Write the verdicts into the attempt's folder, and one log line each."""
    services.store.put(services.layout.verdicts(attempt, verdicts.phase), to_json(verdicts))
    for item in verdicts.items:
        level = _LOG_LEVELS[item.level]
        services.fact(f"check {item}", snapshot_id=snapshot_id, generation=generation, level=level)


def read_kept(services: Services, attempt: str, phase: str) -> Verdicts:
    """The verdicts that an attempt kept. Raises ContractViolation when they are gone."""
    name = services.layout.verdicts(attempt, phase)
    stored = services.store.read(name)
    if stored is None:
        raise ContractViolation(f"[{services.store.uri(name)}] is gone: restore it (soft delete keeps it seven days).")
    return from_json(Verdicts, stored.text, where=services.store.uri(name))
