"""`python -m deploy recover`: what to do if CURRENT or the live generation's manifest is lost, or target.

Target's labels say which generation readers see. If the manifest of that generation is found, CURRENT is made to name
the generation. Otherwise the feed is prepared for a bootstrap, which makes target's rows its first generation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dedup_clone.checks.partition_checks import roll_back_to
from dedup_clone.checks.table_checks import GENERATION_LABEL, MANIFEST_LABEL, labelled_generation
from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import to_json
from dedup_clone.publish.attempt_jobs import attempt_job_id, end_jobs
from dedup_clone.publish.attempts import SwapSpec, find_swap
from dedup_clone.publish.services import Services
from dedup_clone.publish.swap import swap_configuration
from dedup_clone.state.current import Current
from dedup_clone.warehouse.metadata import TableMetadata

# Texts for `RecoveryPlan.unknown`: what nobody knows any more once CURRENT or the live manifest is lost.
_LOST_WITH_CURRENT = (
    "which Airflow environment publishes the feed (the first one that publishes will be it), and which run held the "
    "lease: no run of the feed may be active",
)
_LOST_WITH_MANIFEST = (
    "which deliveries were published, refused or excluded by a rollback: those in landing are applied again, so remove "
    "from landing what must not be published",
    "the generations to roll back to",
)


@dataclass(frozen=True)
class RecoveryPlan:
    """What a recovery does, and what the operator does after it (`next_step`).

    `current`: the new content of CURRENT; None if it stays. `object_generation`: that of CURRENT when the plan was
    made; 0 if it was absent. `candidate`: an attempt's candidate whose manifest is committed again. `swap`: the swap to
    repeat for a deleted target. `removes_label`: whether target's generation label is removed. `unknown`: facts that
    were lost with the records, as texts.
    """

    next_step: str
    current: Current | None = None
    object_generation: int = 0
    candidate: Candidate | None = None
    swap: SwapSpec | None = None
    removes_label: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def changes_anything(self) -> bool:
        return bool(self.current or self.candidate or self.swap or self.removes_label)


def plan_recovery(services: Services, *, table_is_gone: bool = False) -> RecoveryPlan:
    """Compare the feed's records with target. Changes nothing.

    `table_is_gone`: whether the operator says that target, which does not exist, cannot be restored. Raises
    ConfigurationError if the feed is retired.
    """
    stored, current = services.store.read(services.layout.current), services.current.read()
    current.require_in_use()
    target = services.warehouse.table(services.feed.target)
    if target is None:
        plan = _plan_without_target(services, current, table_is_gone=table_is_gone)
    elif label := labelled_generation(target):
        plan = _plan_with_label(services, current, int(label), target)
    else:
        plan = _plan_without_label(services, current)
    if stored is not None:
        return replace(plan, object_generation=stored.object_generation)
    return replace(plan, unknown=(*plan.unknown, *_LOST_WITH_CURRENT)) if plan.current else plan


def carry_out(services: Services, plan: RecoveryPlan, *, table_is_gone: bool = False) -> None:
    """Do what the plan says. After an interruption, make a new plan and carry that out.

    `table_is_gone`: as when the plan was made. Raises LostRace if records or target changed since then, JobFailed if
    the swap cannot be repeated.
    """
    lease = services.current.read().intent
    if lease is not None and plan.current is not None:  # which ends the lease
        end_jobs(services, lease)
    if plan_recovery(services, table_is_gone=table_is_gone) != plan:
        raise LostRace(
            f"Feed [{services.feed.feed}] changed since the plan was made: run `python -m deploy recover` again."
        )
    if plan.candidate is not None and plan.candidate.manifest is not None:
        services.manifests.commit(plan.candidate.manifest, plan.candidate.file_list_uri)
    if plan.current is not None:
        content, name = to_json(plan.current), services.layout.current
        services.store.replace(name, content, expected_object_generation=plan.object_generation)
    if plan.swap is not None:
        _repeat_swap(services, plan.swap)
    if plan.removes_label:
        services.warehouse.alterations.remove_label(services.feed.target, GENERATION_LABEL)
    services.log("recovered lost records", generation=plan.current.generation if plan.current else None)


def _plan_with_label(services: Services, current: Current, generation: int, target: TableMetadata) -> RecoveryPlan:
    """The plan if target's label names `generation`."""
    if current.intent is not None and current.intent.generation == generation:
        attempt, manifests = current.intent.attempt, services.manifests
        swapped = manifests.candidate(attempt)
        has_records = manifests.find_attempt(attempt) is not None and find_swap(services, attempt) is not None
        if has_records and swapped is not None and swapped.manifest is not None:
            return RecoveryPlan("The next run commits the swap of the run that holds the lease.")
    manifest, candidate = services.manifests.find(generation), None
    if manifest is None:
        candidate = _find_candidate(services, generation, target.labels.get(MANIFEST_LABEL))
        manifest = candidate.manifest if candidate else None
    if manifest is None:
        step = (
            "Trigger dedup_clone_bootstrap: it makes target's rows the first generation. Then switch on the feed's "
            "DAGs."
        )
        return replace(_new_start(services, current, step), removes_label=True)
    plan = RecoveryPlan("Switch on the feed's DAGs.", candidate=candidate)
    if current.generation == generation:
        return plan
    digest = target.labels.get(MANIFEST_LABEL, manifest.digest)
    last = max(current.last_generation, services.current.highest_generation(), generation)
    live = replace(current, generation=generation, manifest_digest=digest, last_generation=last, intent=None)
    return replace(plan, current=live)


def _find_candidate(services: Services, generation: int, labelled_digest: str | None) -> Candidate | None:
    """The candidate whose manifest is that of `generation`, as its digest in target's label proves."""
    for folder in services.store.folders(services.layout.attempts):
        candidate = services.manifests.candidate(folder.rstrip("/").rsplit("/", 1)[1])
        manifest = candidate.manifest if candidate else None
        if manifest and (manifest.generation, manifest.digest) == (generation, labelled_digest):
            return candidate
    return None


def _plan_without_target(services: Services, current: Current, *, table_is_gone: bool) -> RecoveryPlan:
    """The plan if target does not exist: repeat its swap, or let the operator restore it, or begin anew."""
    feed = services.feed
    if current.generation is None and (current.last_generation or not services.current.highest_generation()):
        return RecoveryPlan("There is no target, and no publish is recorded: land a snapshot.")
    if table_is_gone:
        plan = _new_start(
            services,
            current,
            f"If you have a copy of the rows, make [{feed.target}] of it, with the feed's partitions and clustering, "
            f"and trigger dedup_clone_bootstrap. Then switch on the feed's DAGs: without a bootstrap, the next publish "
            f"makes target from the snapshots in landing.",
        )
        return replace(plan, unknown=("rows that no snapshot in landing has", *plan.unknown))
    swap = None if current.generation is None else _find_live_swap(services, current.generation)
    if swap is not None:
        return RecoveryPlan("Switch on the feed's DAGs.", swap=swap)
    return RecoveryPlan(
        f"Target [{feed.target}] is gone, and cannot be made from staging: restore it (docs/runbook.md, the dataset or "
        f"a table is deleted), then run this command again."
    )


def _plan_without_label(services: Services, current: Current) -> RecoveryPlan:
    """Target exists and names no generation: a bootstrap is due, or somebody removed the label."""
    if current.generation is None:
        step = "Target names no generation: trigger dedup_clone_bootstrap, which makes its rows the first one."
        return _new_start(services, current, step)
    table = f"{services.names.dataset}.{services.feed.target}"
    return RecoveryPlan(
        f"If nobody replaced target, put the labels back: bq update --set_label {GENERATION_LABEL}:"
        f"{current.generation} --set_label {MANIFEST_LABEL}:{current.manifest_digest} {table}. Then "
        f"{roll_back_to(current.generation)}.",
        unknown=("whether target still holds the generation that CURRENT names, because target's label was removed",),
    )


def _new_start(services: Services, current: Current, next_step: str) -> RecoveryPlan:
    """The plan after which no generation is live, so that a bootstrap or a publish makes the first one.

    That generation gets a number that was never used.
    """
    last = max(current.last_generation, services.current.highest_generation())
    empty = replace(current, generation=None, manifest_digest=None, last_generation=last, intent=None)
    return RecoveryPlan(next_step, current=None if empty == current else empty, unknown=_LOST_WITH_MANIFEST)


def _find_live_swap(services: Services, generation: int) -> SwapSpec | None:
    """The swap that made the generation live, if it can be repeated.

    None if its record or the manifest is lost, or if staging can no longer be cloned as of the time of the swap.
    """
    manifest, staging = services.manifests.find(generation), services.warehouse.table(services.feed.staging)
    swap = find_swap(services, manifest.attempt) if manifest else None
    if staging is None or swap is None or swap.generation != str(generation):
        return None
    oldest = max(staging.created_at, services.now() - services.warehouse.time_travel_window())
    return swap if swap.checked_at > oldest else None


def _repeat_swap(services: Services, swap: SwapSpec) -> None:
    """Run the statement of the swap again, to make a target that does not exist. Raises JobFailed."""
    # Without a parent the statement replaces no target whose label names a generation.
    configuration = swap_configuration(services, replace(swap, parent=""), "restore")
    job_id = attempt_job_id(services.feed.feed, swap.attempt, "restore", int(services.now().timestamp() * 1000))
    services.warehouse.jobs.start(job_id, configuration)
    services.warehouse.wait_for_job(job_id, poll_s=services.job_poll_s)
