"""Divides the time from a delivery's arrival to its swap into phases, which add up to the lag."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from dedup_clone.checks.check_result import accepted_failures
from dedup_clone.contract.manifest import Candidate
from dedup_clone.publish.attempt_jobs import LOAD_STEP, REPLACE_STEP, SWAP_STEP
from dedup_clone.publish.records.attempt_records import find_check_results
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.staging import StreamedChanges
from dedup_clone.warehouse.metadata import JobMetadata

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
