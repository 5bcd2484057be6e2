"""Plans the recovery of a feed whose records were lost, and carries the plan out.

Target's labels say which generation readers see. If the manifest of that generation is found, CURRENT is made to name
the generation. Otherwise the feed is prepared for a bootstrap, which makes target's rows its first generation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dedup_clone.checks.partition_checks import roll_back_to
from dedup_clone.checks.table_checks import GENERATION_LABEL, MANIFEST_LABEL, labelled_generation
from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import to_json
from dedup_clone.publish.lost_records.committed_manifests import (
    RecordChange,
    change_to,
    find_last_committed,
    find_live_manifest,
    find_lost_manifests,
    manifest_changes,
)
from dedup_clone.publish.lost_records.deleted_target import find_live_swap, repeat_swap
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import SwapSpec
from dedup_clone.state.current import Current
from dedup_clone.warehouse.metadata import TableMetadata

# Texts for `RecoveryPlan.unknown`: what nobody knows any more once the lease, CURRENT or the live manifest is lost.
_LOST_WITH_LEASE = "the run that held the lease, and its BigQuery jobs: no run of the feed may be active"
_LOST_WITH_CURRENT: tuple[str, ...] = (
    "which Airflow environment publishes the feed: the first one that publishes will be it",
    _LOST_WITH_LEASE,
)
_LOST_WITH_MANIFEST: tuple[str, ...] = (
    "which deliveries were published, refused or excluded by a rollback: those in landing are applied again, so remove "
    "from landing what must not be published",
    "the generations to roll back to",
)


@dataclass(frozen=True)
class RecoveryPlan:
    """What a recovery does, and what the operator does after it (`next_step`).

    `changes`: of records, in order. `removes_label`: whether target's generation label is removed. `unknown`: facts
    that were lost with the records, as texts. `jobs`: ids of the BigQuery jobs of the run whose lease the recovery
    ends. `swap`: the swap to repeat for a deleted target; None if none is repeated.
    """

    next_step: str
    changes: tuple[RecordChange, ...] = ()
    removes_label: bool = False
    unknown: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    swap: SwapSpec | None = None

    @property
    def changes_anything(self) -> bool:
        return bool(self.changes) or self.removes_label or self.swap is not None


def plan_recovery(services: Services, *, table_is_gone: bool = False) -> RecoveryPlan:
    """Compare the feed's records with target. Changes nothing.

    `table_is_gone`: whether the operator says that target, which does not exist, cannot be restored. Raises
    ConfigurationError if the feed is retired.
    """
    services.current.read().require_in_use()
    target = services.warehouse.table(services.feed.target)
    plan = _plan_current(services, target, table_is_gone=table_is_gone)
    label = labelled_generation(target)
    lost = find_lost_manifests(services, None if label is None else int(label))
    copies = [change for manifest in lost for change in manifest_changes(services, manifest)]
    return replace(plan, changes=(*copies, *plan.changes))


def carry_out(services: Services, plan: RecoveryPlan, *, table_is_gone: bool = False) -> None:
    """Do what the plan says. After an interruption, make a new plan and carry that out.

    `table_is_gone`: as when the plan was made. Raises LostRace if records or target changed since then, JobFailed if
    the swap cannot be repeated.
    """
    for job_id in plan.jobs:
        services.warehouse.fence_job_id(job_id)
    services.warehouse.wait_for_jobs(plan.jobs, poll_s=services.job_poll_s)
    if plan_recovery(services, table_is_gone=table_is_gone) != plan:
        raise LostRace(f"Feed [{services.feed.feed}] changed since the plan was made: run `make recover` again.")
    for change in plan.changes:
        services.store.replace(change.name, change.text, expected_object_generation=change.object_generation)
        services.log(f"recovery: wrote [{change.name}]: {change.reason}")
    if plan.swap is not None:
        repeat_swap(services, plan.swap)
        services.log(f"recovery: made [{services.feed.target}] again", generation=int(plan.swap.generation))
    if plan.removes_label:
        services.warehouse.alterations.remove_label(services.feed.target, GENERATION_LABEL)
        services.log(f"recovery: removed label [{GENERATION_LABEL}] of [{services.feed.target}]")


def _plan_current(services: Services, target: TableMetadata | None, *, table_is_gone: bool) -> RecoveryPlan:
    """The plan for CURRENT and for the manifest of the live generation."""
    current = services.store.read_record(Current, services.layout.current)
    label = labelled_generation(target)
    if target is None:
        return _plan_without_target(services, current, table_is_gone=table_is_gone)
    if label is None:
        return _plan_without_label(services, current)
    generation = int(label)
    if current is not None and current.intent is not None and current.intent.generation == generation:
        attempt = current.intent.attempt
        swapped = services.manifests.candidate(attempt)
        if swapped is not None and swapped.manifest is not None and find_swap(services, attempt) is not None:
            return RecoveryPlan("The next run commits the swap of the run that holds the lease.")
    manifest = find_live_manifest(services, generation, target.labels.get(MANIFEST_LABEL))
    if manifest is None:
        unknown = _LOST_WITH_MANIFEST if current is not None else (*_LOST_WITH_MANIFEST, *_LOST_WITH_CURRENT)
        return _new_start(
            services,
            current,
            f"no record says what generation [{generation}] is, which target holds",
            unknown,
            f"Trigger {services.feed.feed}_bootstrap without a source table: it makes target's rows the first "
            f"generation. Then switch on the feed's DAGs.",
            removes_label=True,
        )
    changes = manifest_changes(services, manifest)
    next_step = "Switch on the feed's DAGs."
    if current is not None and current.generation == generation:
        return RecoveryPlan(next_step, tuple(changes))
    found = "is gone" if current is None else f"names generation [{current.generation}]"
    reason = f"it {found}, and target holds generation [{generation}]"
    live = _without_lease(services, current, at_least=generation)
    live = replace(live, generation=generation, manifest_digest=target.labels.get(MANIFEST_LABEL, manifest.digest))
    unknown = _LOST_WITH_CURRENT if current is None else ()
    changes.append(_change_of_current(services, live, reason))
    return RecoveryPlan(next_step, tuple(changes), unknown=unknown, jobs=_jobs_of_lease(current))


def _plan_without_target(services: Services, current: Current | None, *, table_is_gone: bool) -> RecoveryPlan:
    """The plan if target does not exist: repeat its swap, or let the operator restore it, or begin anew."""
    may_be_published = current is None or current.generation is not None
    if not may_be_published or (current is None and not services.current.highest_generation()):
        return RecoveryPlan("There is no target, and no publish is recorded: land a snapshot.")
    if not table_is_gone:
        committed = find_last_committed(services) if current is None else None
        live = current.generation if current else committed.generation if committed else None
        swap = None if live is None else find_live_swap(services, live)
        if swap is not None:
            plan = RecoveryPlan("Switch on the feed's DAGs.", swap=swap)
            return plan if committed is None else _with_current(services, plan, committed)
        return RecoveryPlan(
            f"Target [{services.feed.target}] is gone, and cannot be made from staging: restore it (docs/runbook.md, "
            f"the dataset or a table is deleted), then run this command again."
        )
    return _new_start(
        services,
        current,
        "target is gone",
        ("rows that no snapshot in landing has", *_LOST_WITH_MANIFEST),
        f"If you have a copy of the rows, trigger {services.feed.feed}_bootstrap with that table as source table. Then "
        f"switch on the feed's DAGs: without a bootstrap, the next publish makes target from the snapshots in landing.",
        removes_label=False,
    )


def _with_current(services: Services, plan: RecoveryPlan, committed: Manifest) -> RecoveryPlan:
    """The plan, which repeats a swap, with a change that makes CURRENT name that generation, too."""
    current = _without_lease(services, None, at_least=committed.generation)
    current = replace(current, generation=committed.generation, manifest_digest=committed.digest)
    change = _change_of_current(services, current, "it is gone, and so is target")
    return replace(plan, changes=(change,), unknown=_LOST_WITH_CURRENT)


def _plan_without_label(services: Services, current: Current | None) -> RecoveryPlan:
    """Target exists and names no generation: a bootstrap is due, or somebody removed the label."""
    if current is None or current.generation is None:
        step = f"Target names no generation: trigger {services.feed.feed}_bootstrap without a source table."
        if current is None and services.current.highest_generation():  # without CURRENT the bootstrap would be refused
            unknown = (*_LOST_WITH_MANIFEST, *_LOST_WITH_CURRENT)
            reason = "it is gone, and target names no generation"
            return _new_start(services, current, reason, unknown, step, removes_label=False)
        return RecoveryPlan(step, unknown=_LOST_WITH_MANIFEST)
    table = f"{services.names.dataset}.{services.feed.target}"
    return RecoveryPlan(
        f"If nobody replaced target, put the labels back: bq update --set_label {GENERATION_LABEL}:"
        f"{current.generation} --set_label {MANIFEST_LABEL}:{current.manifest_digest} {table}. Then "
        f"{roll_back_to(current.generation)}.",
        unknown=("whether target still holds the generation that CURRENT names, because target's label was removed",),
    )


def _new_start(
    services: Services,
    current: Current | None,
    reason: str,
    unknown: tuple[str, ...],
    next_step: str,
    *,
    removes_label: bool,
) -> RecoveryPlan:
    """The plan after which no generation is live, so that a bootstrap or a publish makes the first one.

    That generation gets a number that was never used.
    """
    empty = replace(_without_lease(services, current), generation=None, manifest_digest=None)
    changes = () if empty == current else (_change_of_current(services, empty, reason),)
    return RecoveryPlan(next_step, changes, removes_label, unknown, _jobs_of_lease(current))


def _without_lease(services: Services, current: Current | None, at_least: int = 0) -> Current:
    """CURRENT without a lease.

    Its `last_generation` is at least `at_least`, and at least the highest generation in the name of a record or folder.
    """
    current = current or Current(
        feed=services.feed.feed,
        generation=None,
        manifest_digest=None,
        last_generation=0,
        intent=None,
    )
    last_generation = max(current.last_generation, services.current.highest_generation(), at_least)
    return replace(current, last_generation=last_generation, intent=None)


def _change_of_current(services: Services, current: Current, reason: str) -> RecordChange:
    return change_to(services.store, services.layout.current, to_json(current), reason)


def _jobs_of_lease(current: Current | None) -> tuple[str, ...]:
    return current.intent.jobs if current is not None and current.intent is not None else ()
