"""Replaces target's rows by the checked ones: with a clone of staging, or with a second load of the same files.

The clone's script asserts that target holds the parent, and sets target's label. A load job can do neither, so swap
`copy` takes three steps (docs/adr/0018-copy.md): assert, load under an id that was recorded before, set the label.
Between load and label, the load job says that target holds the new rows.
"""

from __future__ import annotations

import contextlib
from typing import Any

from dedup_clone.checks.table_checks import GENERATION_LABEL, MANIFEST_LABEL, labelled_generation
from dedup_clone.contract.attempt import Attempt, Swap
from dedup_clone.contract.errors import LostRace, OutcomeUnknown
from dedup_clone.publish.attempt_jobs import SWAP_STEP, find_job, query_configuration
from dedup_clone.publish.attempts import SwapSpec, find_swap
from dedup_clone.publish.declared_form import alter_table
from dedup_clone.publish.existing_table import prepare_swap_of_takeover
from dedup_clone.publish.load import read_candidate, table_load_configuration
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent


def begin_swap(services: Services, attempt: Attempt, swap: SwapSpec, job_id: str) -> dict[str, Any]:
    """Record the swap's job in CURRENT, and return its configuration. Before a load, give target the declared form.

    Raises LeaseLost, for swap `copy` OutcomeUnknown if target does not hold the parent, and BootstrapRefused if
    somebody changed the table whose rows are taken over.
    """
    if attempt.takes_over is not None:
        prepare_swap_of_takeover(services, attempt)
    services.current.record_jobs(swap.attempt, [job_id])
    if swap.way is Swap.CLONE:
        return swap_configuration(services, swap)
    _require_parent(services, swap, _live(services))
    candidate, manifest = read_candidate(services, swap.attempt)
    if manifest.restores is None:  # else the files may have a former type
        alter_table(services, services.feed.target)
    return table_load_configuration(services, candidate, manifest, SWAP_STEP)


def swap_configuration(services: Services, swap: SwapSpec, step: str = SWAP_STEP) -> dict[str, Any]:
    """The configuration of the job that replaces target with a clone of staging as it was checked."""
    options = services.feed.table.options
    sql = services.warehouse.render(
        "publish/swap_target.sql", names=services.names, options=options, previous_days=swap.previous_days
    )
    names = ("parent", "generation", "snapshot", "manifest", "description")
    parameters = {
        "target": ("STRING", services.names.target_table),
        **{name: ("STRING", getattr(swap, name)) for name in names},
        "checked_at": ("TIMESTAMP", swap.checked_at.isoformat()),
        "expiration_days": ("FLOAT64", str(swap.expiration_days)),
    }
    return query_configuration(services, step, sql, parameters)


def finish_swap(services: Services, swap: SwapSpec) -> None:
    """After the load of swap `copy`, set target's label and options. Safe to repeat.

    Raises OutcomeUnknown if target's label names another generation than the parent, LostRace if somebody changes
    target at the same time.
    """
    from google.api_core.exceptions import PreconditionFailed

    if swap.way is Swap.CLONE or _live(services) == swap.generation:
        return
    options, own = services.feed.table.options, {GENERATION_LABEL: swap.generation, MANIFEST_LABEL: swap.manifest}
    with contextlib.suppress(PreconditionFailed):  # target was changed since it was read, perhaps by this very request
        services.warehouse.alterations.set_options(
            services.feed.target,
            (GENERATION_LABEL, swap.parent),
            labels={**own, "dedup_clone_snapshot": swap.snapshot, **options.labels},
            description=swap.description,
            friendly_name=options.friendly_name,
            require_partition_filter=options.require_partition_filter,
            days=swap.expiration_days,
        )
    live = _live(services)
    if live != swap.generation:
        _require_parent(services, swap, live)
        raise LostRace(f"Target [{services.feed.target}] was changed meanwhile: this task tries again by itself.")


def complete_swap(services: Services, intent: Intent) -> str | None:
    """The generation that target holds, once all jobs of the attempt have ended; None if its label names none.

    If the load of swap `copy` succeeded, target gets its label now, else the parent's retention again. Raises LostRace
    if another run has ended the attempt.
    """
    live, swap = _live(services), find_swap(services, intent.attempt)
    if swap is None or swap.way is Swap.CLONE or live != swap.parent:
        return live
    job = find_job(services, services.feed.feed, intent.attempt, SWAP_STEP).metadata
    if job is None or not job.ended:
        _restore_retention(services, intent.attempt, int(swap.parent))
        return live
    finish_swap(services, swap)
    return swap.generation


def _restore_retention(services: Services, attempt: str, parent: int) -> None:
    target, days = services.feed.target, services.manifests.read(parent).table.retention_days
    table = services.warehouse.table(target)
    holder = services.current.read().intent  # after target was read: a later run may have set its own retention
    if holder is None or holder.attempt != attempt:
        raise LostRace(f"Attempt [{attempt}] was ended by another run: this task tries again by itself.")
    if table is not None and table.expiration_days != days:
        services.warehouse.alterations.set_partition_expiration(target, days, version=table.version)


def is_loading_target(services: Services, intent: Intent | None) -> bool:
    """Whether swap `copy` has begun: target may have rows and options of this attempt, and the parent's label."""
    has_begun = intent is not None and any(f"-{SWAP_STEP}-" in job_id for job_id in intent.jobs)
    swap = find_swap(services, intent.attempt) if intent and has_begun else None
    return swap is not None and swap.way is Swap.COPY


def _live(services: Services) -> str | None:
    return labelled_generation(services.warehouse.table(services.feed.target))


def _require_parent(services: Services, swap: SwapSpec, live: str | None) -> None:
    if live != swap.parent:
        raise OutcomeUnknown(
            f"Target [{services.feed.target}] does not hold generation [{swap.parent}], on which this publish builds, "
            f"but [{live or 'none'}]: somebody else published. Clear the run from its first task."
        )
