"""Divides the time from a delivery's arrival to its swap into phases, which add up to the lag."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from dedup_clone.contract.manifest import Candidate
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.warehouse.metadata import JobMetadata

# In their order. docs/hour.md describes each.
PHASES = ("until_lease", "task_start", "spark_start", "dedup", "load_queue", "load", "checks", "swap")


def publish_phases(
    services: Services,
    intent: Intent,
    candidate: Candidate,
    jobs: Iterable[JobMetadata],
    *,
    arrived_at: datetime | None,
    swapped_at: datetime,
) -> dict[str, float]:
    """Seconds by phase, from `arrived_at` to `swapped_at`. A publish without an arrival begins with its lease.

    A phase whose end is not recorded is left out: its time counts for the next phase.
    """
    layout, ended = services.layout, list(jobs)
    dedup_name, candidate_name = layout.dedup_started(intent.attempt), layout.candidate(intent.attempt)
    written_at = {info.name: info.created_at for info in services.store.stat([dedup_name, candidate_name])}
    candidate_at, dedup_started_at = written_at.get(candidate_name), written_at.get(dedup_name)
    job_s = sum(candidate.metrics.seconds.values())
    # An SQL engine measures no seconds of its own: its task's start counts as the job's start.
    job_started_at = candidate_at - timedelta(seconds=job_s) if candidate_at and job_s else None
    loads, swaps = _times_of(ended, "load"), _times_of(ended, "swap")
    ends = {
        "until_lease": intent.taken_at if arrived_at else None,
        "task_start": dedup_started_at,
        "spark_start": job_started_at,
        "dedup": candidate_at,
        "load_queue": min((begin for begin, _ in loads), default=None),
        "load": max((end for _, end in loads), default=None),
        "checks": min((begin for begin, _ in swaps), default=None),
        "swap": swapped_at,
    }
    return divide(arrived_at or intent.taken_at, ends, until=swapped_at)


def divide(begin: datetime, ends: dict[str, datetime | None], *, until: datetime) -> dict[str, float]:
    """The seconds between consecutive ends, which add up to `until - begin`.

    The ends are read from several clocks. One that is before the end of the phase before it gives a phase of 0 s.
    """
    seconds, since = {}, begin
    for phase, end in ends.items():
        if end is not None:
            end = max(since, min(end, until))
            seconds[phase] = (end - since).total_seconds()
            since = end
    return seconds


def _times_of(jobs: list[JobMetadata], step: str) -> list[tuple[datetime, datetime]]:
    """Start and end of the step's jobs. The jobs of step `load` of single dates are named `load_20260131`."""
    return [
        (job.started_at, job.ended_at)
        for job in jobs
        if job.started_at and job.ended_at and job.job_id.rsplit("-", 2)[1].split("_")[0] == step
    ]
