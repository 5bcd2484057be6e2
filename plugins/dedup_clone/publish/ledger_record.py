"""Makes the ledger record of an attempt, with the phases of its time and its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from dedup_clone.checks.check_result import accepted_failures
from dedup_clone.checks.row_checks import shares
from dedup_clone.contract.attempt import Attempt, Kind
from dedup_clone.contract.costs import SparkUsage
from dedup_clone.contract.delivery import newly_live
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.publish.attempt_jobs import LOAD_STEP, REPLACE_STEP, SWAP_STEP
from dedup_clone.publish.attempts import SwapSpec, find_check_results, find_swap, try_read
from dedup_clone.publish.publish_costs import cost_of, merge_input
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import Cost, LedgerRecord, Outcome, Stage, count_loads
from dedup_clone.state.manifests import StreamedChanges
from dedup_clone.warehouse.metadata import JobMetadata, Observation

T = TypeVar("T")


def published_record(
    services: Services,
    intent: Intent,
    attempt: Attempt,
    candidate: Candidate,
    manifest: Manifest,
    swap: SwapSpec,
    target: Observation,
    change_rows: int | None,
) -> LedgerRecord:
    """The attempt's ledger record. It only reports: what cannot be read for it is None or empty, and logged.

    `target`: as observed after the swap. `change_rows`: what `record_changes` returned.
    """

    def read(what: str, function: Callable[[], T]) -> T | None:
        """The result of `function`; None if it fails, and a log line that the record has no `what`."""
        return try_read(services, f"the ledger record of attempt [{intent.attempt}] has no {what}", function)

    origin = read("lag and shares", lambda: _read_origin(services, attempt, manifest))
    # A bootstrap has no arrival. Then the time when the attempt acquired the lease counts as the arrival.
    arrived_at = read("arrival", lambda: _arrival_of_newest(services, manifest)) or attempt.taken_at
    swapped_at = target.table.created_at
    newly_live_arrived_at = origin.newly_live_arrived_at if origin else None

    jobs = read("phases and cost", lambda: services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s))
    name = services.layout.streamed_changes(intent.attempt)
    streamed = read("streamed rows", lambda: services.store.read_record(StreamedChanges, name))

    def phases() -> dict[str, float]:
        return publish_phases(
            services, intent, candidate, jobs or [], streamed, arrived_at=newly_live_arrived_at, swapped_at=swapped_at
        )

    def cost() -> Cost:
        found = cost_of(
            jobs or [],
            metadata_bytes_billed=swap.bytes_billed + target.bytes_billed,
            merged=merge_input(manifest, origin.parent, swap.staging_bytes) if origin else None,
            streamed=streamed,
            table_bytes=swap.staging_bytes,
            **_spark_usage(services, intent, candidate),
        )
        # A reused candidate's Spark runs are in the ledger record of the attempt that made it.
        return replace(found, spark_usd=0.0) if candidate.reused_from else found

    changed = [e.changed for e in manifest.dates]
    return LedgerRecord(
        feed=services.feed.feed,
        kind=attempt.kind,
        is_replay=attempt.is_replay,
        outcome=Outcome.PUBLISHED,
        stage=Stage.COMMIT,
        reason=attempt.reason,
        snapshot_id=int(swap.snapshot),
        deliveries=manifest.applied if attempt.dates is None else (),
        generation=manifest.generation,
        parent=attempt.parent,
        attempt=attempt.id,
        dag_id=attempt.dag_id,
        run_id=attempt.run_id,
        restores=manifest.restores,
        engine=manifest.engine,
        plans=tuple(sorted({e.plan for e in manifest.dates})),
        arrived_at=arrived_at,
        swapped_at=swapped_at,
        lag_s=None if newly_live_arrived_at is None else (swapped_at - newly_live_arrived_at).total_seconds(),
        rows=manifest.rows,
        new_rows=sum(e.new_keys for e in manifest.dates),
        changed_rows=None if None in changed else sum(c or 0 for c in changed),
        kept_rows=sum(e.survivors for e in manifest.dates),
        dropped_rows=manifest.dropped_rows,
        ties=sum(e.ties for e in manifest.dates),
        bytes_read=candidate.metrics.bytes_read,
        bytes_written=candidate.metrics.bytes_written,
        shares=shares(manifest, origin.parent) if origin else {},
        phases=(read("phases", phases) if jobs is not None else None) or {},
        cost=read("cost", cost) if jobs is not None else None,
        loads=count_loads(intent.jobs),
        erased_rows=sum(candidate.erased.rows.values()) if manifest.kind is Kind.ERASE and candidate.erased else None,
        cluster_overlap=manifest.cluster_overlap,
        change_rows=change_rows,
        taken_over=not manifest.deliveries,
    )


def failed_attempt_cost(services: Services, intent: Intent, candidate: Candidate | None) -> Cost | None:
    """The cost of the attempt's jobs and Spark runs as far as it is recorded; None if it cannot be read.

    The checks' own queries of metadata, 10 MB each, count only if all checks passed.
    """

    def read() -> Cost:
        found = [services.warehouse.job(job_id) for job_id in intent.jobs]
        swap = find_swap(services, intent.attempt)
        streamed = services.store.read_record(StreamedChanges, services.layout.streamed_changes(intent.attempt))
        staging = services.warehouse.table(services.feed.staging) if streamed else None
        return cost_of(
            [job for job in found if job is not None],
            metadata_bytes_billed=swap.bytes_billed if swap else 0,
            merged=None,
            streamed=streamed,
            table_bytes=staging.size if staging else 0,
            **_spark_usage(services, intent, candidate),
        )

    return try_read(services, f"the ledger record of attempt [{intent.attempt}] has no cost", read)


def _spark_usage(services: Services, intent: Intent, candidate: Candidate | None) -> dict[str, Any]:
    """What `cost_of` needs of the attempt's Spark runs."""
    usage = services.store.read_record(SparkUsage, services.layout.spark_usage(intent.attempt))
    return {"usage": usage, "job_seconds": sum(candidate.metrics.seconds.values()) if candidate else None}


@dataclass(frozen=True)
class _Origin:
    """What a generation adds to. `newly_live_arrived_at`: see `arrival_time_of_newly_live`."""

    parent: Manifest | None
    newly_live_arrived_at: datetime | None


def _read_origin(services: Services, attempt: Attempt, manifest: Manifest) -> _Origin:
    parent = None if manifest.parent is None else services.manifests.read(manifest.parent)
    if attempt.dates is not None:  # dates of a delivery that is live already
        return _Origin(parent, None)
    return _Origin(parent, arrival_time_of_newly_live(services, manifest, parent))


def _arrival_of_newest(services: Services, manifest: Manifest) -> datetime | None:
    """The arrival of the newest delivery; without deliveries that of the generation from which the rows come."""
    if manifest.deliveries:
        return services.arrivals.read(manifest.deliveries[-1]).arrived_at
    origin = manifest.parent if manifest.restores is None else manifest.restores
    record = None if origin is None else services.ledger.read(services.manifests.read(origin).attempt)
    return None if record is None else record.arrived_at


def arrival_time_of_newly_live(services: Services, manifest: Manifest, parent: Manifest | None) -> datetime | None:
    """The arrival of the newest delivery that was never live before.

    None if there is no such delivery.
    """
    found = newly_live(manifest.applied, (*parent.deliveries, *parent.excluded) if parent else ())
    return services.arrivals.read(found[-1]).arrived_at if found else None


# The time in which BigQuery jobs of the publish were PENDING. The other phases do not include this time.
QUEUED = "queued"
# In the order in which they happen (docs/costs-and-limits.md).
PHASES = (
    *("until_lease", "task_start", "spark_start", "dedup", "load_start"),
    *("load", "checks", "approval", "swap", QUEUED),
)


def publish_phases(
    services: Services,
    intent: Intent,
    candidate: Candidate,
    jobs: Iterable[JobMetadata],
    streamed: StreamedChanges | None = None,
    *,
    arrived_at: datetime | None,
    swapped_at: datetime,
) -> dict[str, float]:
    """Seconds by phase, from `arrived_at` (None: from the lease) to `swapped_at`.

    A phase whose end is not recorded is left out: its time counts for the next phase. `streamed`: what engine `cdc`
    streamed; then the phase `load` lasts until BigQuery has applied it.
    """
    layout, ended = services.layout, list(jobs)
    dedup_name, candidate_name = layout.dedup_started(intent.attempt), layout.candidate(intent.attempt)
    written_at = {info.name: info.created_at for info in services.store.stat([dedup_name, candidate_name])}
    candidate_at, dedup_started_at = written_at.get(candidate_name), written_at.get(dedup_name)
    job_s = sum(candidate.metrics.seconds.values())
    # The candidate of a rollback has no seconds, because no job made it. An engine in SQL starts no Spark.
    runs_spark = candidate.manifest is not None and candidate.manifest.engine.runs_spark
    job_started_at = candidate_at - timedelta(seconds=job_s) if candidate_at and job_s and runs_spark else None
    loads = [*_times_of(ended, LOAD_STEP), *_times_of(ended, REPLACE_STEP)]
    swaps = _times_of(ended, SWAP_STEP)
    if streamed is not None and streamed.applied_at is not None:
        loads.append((streamed.began_at, streamed.applied_at))
    swap_began_at = min((begin for begin, _ in swaps), default=None)
    approval_asked_at = _approval_asked_at(services, intent.attempt)
    ends = {
        "until_lease": intent.taken_at if arrived_at else None,
        "task_start": dedup_started_at,
        "spark_start": job_started_at,
        "dedup": candidate_at,
        "load_start": min((begin for begin, _ in loads), default=None),
        "load": max((end for _, end in loads), default=None),
        "checks": approval_asked_at or swap_began_at,
        "approval": swap_began_at if approval_asked_at else None,
        "swap": swapped_at,
    }
    return divide_into_phases(arrived_at or intent.taken_at, ends, pending_times(services, ended), until=swapped_at)


def _approval_asked_at(services: Services, attempt: str) -> datetime | None:
    """When the checks ended and a person was asked to approve failures; None if nobody was asked."""
    results = find_check_results(services, attempt, "before")
    if results is None or not accepted_failures(results.items):
        return None
    name = services.layout.check_results(attempt, "before")
    return next((info.created_at for info in services.store.stat([name])), None)


def phases_in_order(phases: dict[str, float]) -> list[tuple[str, float]]:
    """The phases with their seconds, in the order in which they happen."""
    return sorted(phases.items(), key=lambda phase: (PHASES.index(phase[0]) if phase[0] in PHASES else -1, phase[0]))


def pending_times(services: Services, jobs: Iterable[JobMetadata]) -> list[tuple[datetime, datetime]]:
    """Begin and end of the time in which each job, or each statement of a script, was PENDING (queued)."""
    all_jobs = list(jobs)
    all_jobs += [child for job in all_jobs if job.child_jobs for child in services.warehouse.child_jobs(job.job_id)]
    return [(job.created_at, job.started_at) for job in all_jobs if job.created_at and job.started_at]


def divide_into_phases(
    begin: datetime,
    ends: dict[str, datetime | None],
    pending: Iterable[tuple[datetime, datetime]] = (),
    *,
    until: datetime,
) -> dict[str, float]:
    """The seconds of each phase. A phase lasts from the end of the phase before it to its own end.

    `begin`: when the first phase begins. `ends`: the phases in order, each with its end; a phase whose end is None is
    left out. Times in `pending` count for the phase QUEUED instead. If the last phase ends at `until`, all phases add
    up to `until - begin`. The ends are read from several clocks: a phase that would end before it begins gets 0 s.
    """
    waits = _without_overlaps(pending)
    seconds, since, queued = {}, begin, 0.0
    for phase, end in ends.items():
        if end is not None:
            end = max(since, min(end, until))
            waited = sum(max((min(end, last) - max(since, first)).total_seconds(), 0.0) for first, last in waits)
            seconds[phase] = (end - since).total_seconds() - waited
            since, queued = end, queued + waited
    return {**seconds, QUEUED: queued}


def _without_overlaps(times: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """The same times as intervals that do not overlap, ascending."""
    united: list[tuple[datetime, datetime]] = []
    for first, last in sorted(times):
        if united and first <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], last))
        else:
            united.append((first, last))
    return united


def _times_of(jobs: list[JobMetadata], step: str) -> list[tuple[datetime, datetime]]:
    """Start and end of the step's jobs. A job that loads a single date has a step such as `load_20260131`."""
    return [
        (job.started_at, job.ended_at)
        for job in jobs
        if job.started_at and job.ended_at and job.job_id.rsplit("-", 2)[1].split("_")[0] == step
    ]
