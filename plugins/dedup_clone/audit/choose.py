"""First step of an audit: is there something to compare, and which partitions are next?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dedup_clone.audit.rotation import auditable_dates, in_turn
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import AuditsFile

# Partitions over the budget are passed over; more than these are not looked at in one run.
TRIED_PER_AUDITED = 10


@dataclass(frozen=True)
class ChosenPartitions:
    """`dates` in turn, more than will be audited; empty when nothing can be, and `reason` says why."""

    dates: tuple[date, ...]
    reason: str = ""


def choose_partitions(services: Services, wanted: date | None) -> ChosenPartitions:
    """The partitions to audit. `wanted`: this one only. Raises ConfigurationError when the generation lacks it."""
    generation = services.current.read().generation
    if generation is None:
        return ChosenPartitions((), "nothing was published yet")
    manifest = services.manifests.read(generation)
    reason = _not_comparable(services, manifest)
    if reason:
        return ChosenPartitions((), reason)
    dates = auditable_dates(manifest, services.now())
    if wanted is not None:
        return ChosenPartitions((_existing(wanted, dates, generation),))
    if not dates:
        return ChosenPartitions((), f"generation {generation} has no partition that does not end within two days")
    turn = in_turn(dates, AuditsFile(services.store, services.feed.feed).read())
    return ChosenPartitions(turn[: services.feed.content_audit.partitions_per_day * TRIED_PER_AUDITED])


def _not_comparable(services: Services, manifest: Manifest) -> str:
    """Files are one side of the comparison; the other is what a query is shown, which policies make less or other."""
    if manifest.data_folder is None:
        return f"generation {manifest.generation} was made by engine [{manifest.engine}], which leaves no files"
    policies = services.warehouse.policies(services.feed.target)
    if policies.row_access or policies.column_tags:
        names = ", ".join([*policies.row_access, *policies.column_tags])
        return f"target has row or column policies ({names}): a query may be shown fewer rows or other values"
    return ""


def _existing(wanted: date, dates: set[date], generation: int) -> date:
    if wanted not in dates:
        known = f"{min(dates)} to {max(dates)}" if dates else "none"
        raise ConfigurationError(
            f"Partition [{wanted}] of generation [{generation}] cannot be audited; those that can are: {known}."
        )
    return wanted
