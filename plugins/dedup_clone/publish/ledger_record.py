"""Makes the ledger record of an attempt, published or not, with the phases of its time and its cost.

The record only reports: what cannot be read stays empty, and is logged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from dedup_clone.checks.check_result import stopped_by
from dedup_clone.checks.row_checks import shares
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import newly_live
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.publish.attempt_jobs import LOAD_STEP, REPLACE_STEP, SWAP_STEP
from dedup_clone.publish.attempts import SwapSpec, arrived_at, best_effort, failed_checks, find_swap
from dedup_clone.publish.publish_costs import cost_of, merge_and_qualify_usd
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import Cost, LedgerRecord, Outcome, Stage, count_loads
from dedup_clone.state.manifests import StreamedChanges
from dedup_clone.warehouse.metadata import JobMetadata, Observation


def published_record(
    services: Services,
    intent: Intent,
    attempt: Attempt,
    candidate: Candidate,
    manifest: Manifest,
    swap: SwapSpec,
    target: Observation,
    change_rows: int | None,
    jobs: list[JobMetadata],
) -> LedgerRecord:
    """The record of an attempt that is committed. `target`: as observed after the swap.

    `change_rows`: what `record_changes` returned. `jobs`: those of the attempt, which have ended.
    """
    changed = [e.changed for e in manifest.dates]
    record = replace(
        _record(services, intent, attempt),
        outcome=Outcome.PUBLISHED,
        stage=Stage.COMMIT,
        snapshot_id=int(swap.snapshot),
        deliveries=manifest.applied if attempt.dates is None else (),
        restores=manifest.restores,
        replay=attempt.is_replay,
        taken_over=not manifest.deliveries,
        swapped_at=target.table.created_at,
        engine=manifest.engine,
        plans=tuple(sorted({e.plan for e in manifest.dates})),
        rows=manifest.rows,
        new_rows=sum(e.new_keys for e in manifest.dates),
        changed_rows=None if None in changed else sum(c or 0 for c in changed),
        kept_rows=sum(e.survivors for e in manifest.dates),
        dropped_rows=manifest.dropped_rows,
        change_rows=change_rows,
        ties=sum(e.ties for e in manifest.dates),
        cluster_overlap=manifest.cluster_overlap,
    )
    lacks = f"the ledger record of attempt [{attempt.id}] lacks"
    with best_effort(services, f"{lacks} its arrival"):
        record = replace(record, arrived_at=_arrival_of_newest(services, manifest) or attempt.taken_at)
    with best_effort(services, f"{lacks} its cost"):
        cost = _cost(services, intent, candidate, jobs, swap.bytes_billed)
        record = replace(record, cost=cost)
    with best_effort(services, f"{lacks} its lag and shares"):
        parent = None if manifest.parent is None else services.manifests.read(manifest.parent)
        merge_usd, qualify_usd = merge_and_qualify_usd(manifest, parent, swap.staging_bytes)
        record = replace(
            record,
            lag_s=_lag_s(services, attempt, manifest, parent, target.table.created_at),
            shares=shares(manifest, parent),
            cost=record.cost and replace(record.cost, merge_usd=merge_usd, qualify_usd=qualify_usd),
        )
    with best_effort(services, f"{lacks} its phases"):
        record = replace(record, phases=_phases(services, intent, candidate, jobs, record))
    return record


def ended_record(services: Services, intent: Intent, attempt: Attempt, candidate: Candidate | None) -> LedgerRecord:
    """The record of an attempt that committed nothing, with its cost as far as that is recorded."""
    stage, reason = _how_it_ended(services, intent, candidate)
    record = replace(
        _record(services, intent, attempt),
        outcome=Outcome.REFUSED if candidate is not None and candidate.manifest is None else Outcome.FAILED,
        stage=stage,
        reason=reason,
        arrived_at=arrived_at(services, attempt),
    )
    with best_effort(services, f"the ledger record of attempt [{attempt.id}] lacks the cost"):
        swap = find_swap(services, attempt.id)  # the checks' queries are recorded if all checks passed
        jobs = services.warehouse.wait_for_jobs(intent.jobs, poll_s=services.job_poll_s)
        cost = _cost(services, intent, candidate, jobs, swap.bytes_billed if swap else 0)
        record = replace(record, cost=cost)
    return record


def _record(services: Services, intent: Intent, attempt: Attempt) -> LedgerRecord:
    """What is known of every attempt."""
    return LedgerRecord(
        feed=services.feed.feed,
        kind=attempt.kind,
        outcome=Outcome.FAILED,
        stage=Stage.DEDUP,
        reason=attempt.reason,
        snapshot_id=attempt.snapshot_id,
        generation=attempt.generation,
        parent=attempt.parent,
        attempt=attempt.id,
        dag_id=attempt.dag_id,
        run_id=attempt.run_id,
        engine=attempt.engine,
        arrived_at=attempt.taken_at,
        deliveries=attempt.landed_deliveries,
        restores=attempt.restores,
        loads=count_loads(intent.jobs),
    )


def _how_it_ended(services: Services, intent: Intent, candidate: Candidate | None) -> tuple[Stage, str]:
    """The stage that the attempt had reached, and why it ended."""
    if candidate is None:
        return Stage.DEDUP, "ended before its dedup had a result"
    if candidate.manifest is None:
        return Stage.DEDUP, "; ".join(item.reason for item in candidate.refused)
    failed = failed_checks(services, intent.attempt)
    if failed:
        return Stage.CHECK, stopped_by(failed)
    staging = services.current.read().staging
    if staging is None or staging.attempt != intent.attempt:
        return Stage.LOAD, "ended before its load"
    state = "loaded" if staging.holds else "not loaded"
    return Stage.CHECK, (
        f"ended before its swap; staging was {state}; see {services.layout.check_results(intent.attempt, 'before')}"
    )


def _arrival_of_newest(services: Services, manifest: Manifest) -> datetime | None:
    """The arrival of the newest delivery; without deliveries that of the generation from which the rows come."""
    if manifest.deliveries:
        return services.arrivals.read(manifest.deliveries[-1]).arrived_at
    origin = services.ledger.of_generation(manifest.parent if manifest.restores is None else manifest.restores)
    return None if origin is None else origin.arrived_at


def _lag_s(
    services: Services, attempt: Attempt, manifest: Manifest, parent: Manifest | None, swapped_at: datetime
) -> float | None:
    """Seconds from the arrival of the newest delivery that was never live before; None without such a delivery."""
    before = (*parent.deliveries, *parent.excluded) if parent else ()
    found = [] if attempt.dates is not None else newly_live(manifest.applied, before)
    return (swapped_at - services.arrivals.read(found[-1]).arrived_at).total_seconds() if found else None


def _streamed(services: Services, intent: Intent) -> StreamedChanges | None:
    return services.store.read_record(StreamedChanges, services.layout.streamed_changes(intent.attempt))


def _cost(
    services: Services, intent: Intent, candidate: Candidate | None, jobs: list[JobMetadata], checks_billed: int
) -> Cost:
    """The cost of the attempt's jobs and Spark runs. `checks_billed`: bytes billed for the queries of the checks."""
    usd_of_runs = services.store.read_record(dict[str, float], services.layout.spark_usage(intent.attempt))
    spark_usd = sum(usd_of_runs.values()) if usd_of_runs else None
    if candidate is not None and candidate.reused_from:
        spark_usd = 0.0  # the Spark runs are in the ledger record of the attempt that made the candidate
    streamed = _streamed(services, intent)
    staging = services.warehouse.table(services.feed.staging) if streamed else None
    return cost_of(
        jobs,
        checks_billed=checks_billed,
        streamed=streamed,
        table_bytes=staging.size if staging else 0,
        spark_usd=spark_usd,
    )


def _phases(
    services: Services,
    intent: Intent,
    candidate: Candidate,
    jobs: list[JobMetadata],
    record: LedgerRecord,
) -> dict[str, float]:
    """Seconds by phase until the swap, from the arrival (without a lag: from the lease).

    A phase whose end is not recorded is left out: its time counts for the next phase. If engine `cdc` streamed, the
    phase `load` lasts until BigQuery has applied that.
    """
    assert record.swapped_at is not None
    layout = services.layout
    dedup_name, candidate_name = layout.dedup_started(intent.attempt), layout.candidate(intent.attempt)
    written_at = {info.name: info.created_at for info in services.store.stat([dedup_name, candidate_name])}
    candidate_at, job_s = written_at.get(candidate_name), sum(candidate.seconds.values())
    # The candidate of a rollback has no seconds, because no job made it. An engine in SQL starts no Spark.
    spark_began_at = candidate_at - timedelta(seconds=job_s) if candidate_at and job_s else None
    loads = [*_times_of(jobs, LOAD_STEP), *_times_of(jobs, REPLACE_STEP)]
    streamed = _streamed(services, intent)
    if streamed is not None and streamed.applied_at is not None:
        loads.append((streamed.began_at, streamed.applied_at))
    swap_began_at = min((begin for begin, _ in _times_of(jobs, SWAP_STEP)), default=None)
    ends = {
        "until_lease": None if record.lag_s is None else intent.taken_at,
        "task_start": written_at.get(dedup_name),
        "spark_start": spark_began_at if record.engine.runs_spark else None,
        "dedup": candidate_at,
        "load_start": min((begin for begin, _ in loads), default=None),
        "load": max((end for _, end in loads), default=None),
        "checks": swap_began_at,
        "swap": record.swapped_at,
    }
    arrived = None if record.lag_s is None else record.swapped_at - timedelta(seconds=record.lag_s)
    jobs = jobs + [child for job in jobs if job.child_jobs for child in services.warehouse.child_jobs(job.job_id)]
    pending = [(job.created_at, job.started_at) for job in jobs if job.created_at and job.started_at]
    return divide_into_phases(arrived or intent.taken_at, ends, pending, until=record.swapped_at)


def divide_into_phases(
    begin: datetime,
    ends: dict[str, datetime | None],
    pending: Iterable[tuple[datetime, datetime]] = (),
    *,
    until: datetime,
) -> dict[str, float]:
    """The seconds of each phase. A phase lasts from the end of the phase before it to its own end.

    `begin`: when the first phase begins. `ends`: the phases in order, each with its end; a phase whose end is None is
    left out. Times in `pending`, in which BigQuery's jobs were PENDING, count for the phase `queued` instead. If the
    last phase ends at `until`, all phases add up to `until - begin`. The ends are read from several clocks: a phase
    that would end before it begins gets 0 s.
    """
    waits = _without_overlaps(pending)
    seconds, since, queued = {}, begin, 0.0
    for phase, end in ends.items():
        if end is not None:
            end = max(since, min(end, until))
            waited = sum(max((min(end, last) - max(since, first)).total_seconds(), 0.0) for first, last in waits)
            seconds[phase] = (end - since).total_seconds() - waited
            since, queued = end, queued + waited
    return {**seconds, "queued": queued}


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
