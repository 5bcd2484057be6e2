"""Keeps index.json in step: after each commit, discarded attempt, arrival and audit, from the records of state."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ContractViolation, DedupCloneError, LostRace
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.backlog import waiting
from dedup_clone.publish.services import Services
from dedup_clone.publish.swap_files import find_swap
from dedup_clone.publish.verdict_files import find_kept
from dedup_clone.settings.freshness import ExpectedArrivals
from dedup_clone.state.audits import AuditsFile
from dedup_clone.state.index import (
    FAILURES_KEPT,
    RECORDS_KEPT,
    ExpectedTimes,
    Fate,
    Index,
    IndexArrival,
    IndexAudit,
    IndexChecks,
    IndexDate,
    IndexFile,
    IndexGeneration,
    IndexVerdict,
    TimeTravel,
)
from dedup_clone.state.ledger import LedgerRecord, Outcome

ARRIVALS_KEPT = 200
CHECKS_KEPT = 10
GENERATIONS_KEPT = 50
ROUNDS = 5


@dataclass(frozen=True)
class Known:
    """What the index is derived from: the one before, the live manifest, and the attempt that has just ended."""

    before: Index | None
    live: Manifest | None
    ended: LedgerRecord | None


def refresh_index(services: Services, *, ended: LedgerRecord | None = None, committed: Manifest | None = None) -> None:
    """Write the index anew. `ended`: the attempt that ended just now; `committed`: its manifest, if it published.

    Raises LostRace when others wrote it five times meanwhile.
    """
    file = IndexFile(services.store, services.feed.feed)
    for round_number in range(ROUNDS):
        stored = file.read()
        live = committed or _live_manifest(services, stored.index)
        index = _derive(services, Known(stored.index, live, ended))
        try:
            return file.write(index, expected_generation=stored.object_generation)
        except LostRace:
            if round_number == ROUNDS - 1:
                raise


def tell_page(services: Services, *, ended: LedgerRecord | None = None) -> None:
    """Like `refresh_index` where the work must go on whatever becomes of the page: a failure is logged."""
    from google.api_core.exceptions import GoogleAPICallError

    try:
        refresh_index(services, ended=ended)
    except (DedupCloneError, GoogleAPICallError) as error:
        services.fact(f"index.json keeps its old text until the next publish: {error}", level=logging.WARNING)


def _live_manifest(services: Services, before: Index | None) -> Manifest | None:
    """A commit writes the index before CURRENT, so the index may be the one that is ahead."""
    generations = [services.current.read().generation, before.generation if before else None]
    known = [g for g in generations if g is not None]
    return services.manifests.read(max(known)) if known else None


def _derive(services: Services, known: Known) -> Index:
    feed, live = services.feed, known.live
    records, failures = _attempts(services, known)
    return Index(
        feed=feed.feed,
        description=feed.description,
        owner=feed.owner,
        target=f"{services.names.project}.{services.names.dataset}.{services.names.target_table}",
        engine=feed.engine,
        promise_minutes=feed.freshness.promise_minutes,
        expected=_expected(feed.freshness.expected_arrivals),
        max_age_minutes=feed.freshness.max_age_minutes,
        generation=live.generation if live else None,
        retention_days=live.table.retention_days if live else feed.table.retention_days,
        dates=_dates(live),
        records=records,
        failures=failures,
        arrivals=_arrivals(services, known),
        checks=_checks(services, known),
        generations=_generations(services, known, records),
        excluded=live.excluded if live else (),
        time_travel=_time_travel(services, known),
        audit=_audit(services),
    )


def _expected(arrivals: ExpectedArrivals | None) -> ExpectedTimes | None:
    return ExpectedTimes(arrivals.times, arrivals.zone, arrivals.grace_minutes) if arrivals else None


def _dates(live: Manifest | None) -> tuple[IndexDate, ...]:
    return tuple(IndexDate(e.date, e.rows, e.survivors) for e in live.dates) if live else ()


def _attempts(services: Services, known: Known) -> tuple[tuple[LedgerRecord, ...], tuple[LedgerRecord, ...]]:
    """Publishes, and attempts that changed nothing."""
    if known.before is None:
        attempts = services.ledger.read_last(RECORDS_KEPT)
    else:
        attempts = [*known.before.records, *known.before.failures]
    if known.ended is not None:
        attempts = [*(r for r in attempts if r.attempt != known.ended.attempt), known.ended]
    attempts.sort(key=lambda r: r.attempt)
    published = [r for r in attempts if r.outcome is Outcome.PUBLISHED]
    others = [r for r in attempts if r.outcome is not Outcome.PUBLISHED]
    return tuple(published[-RECORDS_KEPT:]), tuple(others[-FAILURES_KEPT:])


def _arrivals(services: Services, known: Known) -> tuple[IndexArrival, ...]:
    backlog = waiting(services, known.live)
    refused = set(services.arrivals.refused())
    before = {a.delivery: a for a in known.before.arrivals} if known.before else {}
    published = set(known.live.deliveries) if known.live else set()
    excluded = set(known.live.excluded) if known.live else set()

    def fate(delivery: Delivery) -> Fate:
        if delivery in backlog.apply:
            return Fate.WAITING
        if delivery in excluded:
            return Fate.EXCLUDED
        if delivery in published:
            return Fate.PUBLISHED
        return Fate.REFUSED if delivery in refused else Fate.SUPERSEDED

    chosen = sorted({*services.arrivals.deliveries()[-ARRIVALS_KEPT:], *backlog.apply})
    arrivals = [_arrival(services, before.get(d), d, fate(d)) for d in chosen]
    return tuple(sorted(arrivals, key=lambda a: (a.arrived_at, a.delivery)))


def _arrival(services: Services, before: IndexArrival | None, delivery: Delivery, fate: Fate) -> IndexArrival:
    if before is None:
        record = services.arrivals.read(delivery)
        size = sum(item.size for item in record.objects)
        before = IndexArrival(delivery, record.arrived_at, len(record.objects), size, fate, "", None)
    if fate is not Fate.REFUSED or before.refused_at is not None:
        return replace(before, fate=fate)
    refusal = services.arrivals.refusal(delivery)
    if refusal is None:
        return replace(before, fate=fate)
    return replace(before, fate=fate, reason=refusal.reason, refused_at=refusal.refused_at)


def _checks(services: Services, known: Known) -> tuple[IndexChecks, ...]:
    before = known.before.checks if known.before else ()
    record = known.ended
    if record is None:
        return before
    verdicts = [v for phase in ("before", "after") for v in _verdicts(services, record.attempt, phase)]
    if not verdicts:
        return before
    checks = IndexChecks(record.attempt, record.generation, record.snapshot_id, tuple(verdicts))
    others = [c for c in before if c.attempt != record.attempt]
    return (*others, checks)[-CHECKS_KEPT:]


def _verdicts(services: Services, attempt: str, phase: str) -> Iterable[IndexVerdict]:
    verdicts = find_kept(services, attempt, phase)
    if verdicts is None:
        return []
    return [IndexVerdict(phase, v.check, str(v.level), v.found, v.expected, v.next_step) for v in verdicts.items]


def _generations(services: Services, known: Known, records: tuple[LedgerRecord, ...]) -> tuple[IndexGeneration, ...]:
    before = {g.generation: g for g in known.before.generations} if known.before else {}
    found = []
    for record in records[-GENERATIONS_KEPT:]:
        generation = before.get(record.generation) or _generation(services, record)
        if generation is not None:
            found.append(generation)
    folders = {g.generation: g.data_folder for g in found}
    # What prune keeps: the live generation's folder and its parent's.
    kept = {folders.get(known.live.generation), folders.get(known.live.parent or 0)} if known.live else set()
    return tuple(replace(g, has_files=g.data_folder is not None and g.data_folder in kept) for g in found)


def _generation(services: Services, record: LedgerRecord) -> IndexGeneration | None:
    if record.swapped_at is None:
        return None
    swap = find_swap(services, record.attempt)
    try:
        manifest = services.manifests.read(record.generation)
    except ContractViolation:
        return None  # removed by hand: nothing can be restored without it
    return IndexGeneration(
        generation=record.generation,
        restores=record.restores,
        snapshot_id=record.snapshot_id,
        rows=record.rows,
        swapped_at=record.swapped_at,
        checked_at=swap.checked_at if swap else None,
        data_folder=manifest.data_folder,
        has_files=False,
    )


def _time_travel(services: Services, known: Known) -> TimeTravel | None:
    """Asked for once a publish; two metadata calls."""
    before = known.before.time_travel if known.before else None
    if known.ended is None or known.ended.outcome is not Outcome.PUBLISHED:
        return before
    staging = services.warehouse.table(services.feed.staging)
    if staging is None:
        return None
    return TimeTravel(services.warehouse.time_travel_window().total_seconds() / 3600, staging.created_at)


def _audit(services: Services) -> IndexAudit | None:
    audits = AuditsFile(services.store, services.feed.feed).read()
    last = audits.last
    if last is None:
        return None
    unequal = tuple(record.date for record in audits.unequal)
    return IndexAudit(unequal, last.date, last.generation, str(last.outcome), last.audited_at)
