"""Derives index.json, which the page Snapshots reads, after each commit, discarded attempt, arrival and audit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dedup_clone.checks.check_result import CheckResult
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.records.attempt_records import find_check_results, find_swap
from dedup_clone.publish.records.best_effort import best_effort
from dedup_clone.publish.records.erasure_records import last_erasure_generation
from dedup_clone.publish.records.held_deliveries import HeldDelivery, find_held
from dedup_clone.publish.records.index_arrivals import list_arrivals
from dedup_clone.publish.records.stopped_publish import find_stopped_publish
from dedup_clone.publish.services import Services
from dedup_clone.settings.freshness_settings import ExpectedArrivals
from dedup_clone.state.audits import AuditsFile
from dedup_clone.state.index import (
    MAX_FAILURES,
    MAX_RECORDS,
    DeliveryState,
    ExpectedTimes,
    Index,
    IndexAudit,
    IndexChecks,
    IndexDate,
    IndexFile,
    IndexGeneration,
    IndexLanding,
    IndexStopped,
    IndexVerdict,
    TimeTravel,
    indexed_and_later_attempts,
)
from dedup_clone.state.layout import generation_of
from dedup_clone.state.ledger import LedgerRecord, Outcome
from dedup_clone.state.store import retry_lost_race

ATTEMPTS_WITH_CHECKS = 10  # the last attempts whose check results are listed
HELD_LISTED = 20  # the newest held deliveries
GENERATIONS_LISTED = 50  # on the page, and for a rollback to choose from


@dataclass(frozen=True)
class _Inputs:
    """What the index is derived from. `stored`: the former index; None when there is none.

    `live`: the live generation's manifest; None before the first publish. `attempts`: those in the stored index, and
    those that ended since it was written, newest last. `erasure_generation`: that of the last erasure, 0 without one.
    Earlier generations may still contain erased keys.
    """

    stored: Index | None
    live: Manifest | None
    attempts: list[LedgerRecord]
    erasure_generation: int

    @property
    def new_attempts(self) -> list[LedgerRecord]:
        """The attempts that the stored index lacks."""
        indexed = {r.attempt for r in (*self.stored.records, *self.stored.failures)} if self.stored else set()
        return [r for r in self.attempts if r.attempt not in indexed]


def try_refresh_index(services: Services) -> None:
    """Call `refresh_index`. A failure is logged and never raised: the page must not stop a publish."""
    with best_effort(services, "index.json is not updated until the next attempt, arrival or audit"):
        refresh_index(services)


def refresh_index(services: Services) -> None:
    """Derive the index again and write it. Raises LostRace after five lost races."""
    file = IndexFile(services.store, services.feed.feed)

    def write() -> None:
        stored = file.read()
        generation = services.current.read().generation
        live = None if generation is None else services.manifests.read(generation)
        attempts = indexed_and_later_attempts(services.store, services.feed.feed, stored.index)
        inputs = _Inputs(stored.index, live, attempts, last_erasure_generation(services, generation))
        index = _derive(services, inputs)
        file.write(index, expected_object_generation=stored.object_generation)

    retry_lost_race(write)


def _derive(services: Services, inputs: _Inputs) -> Index:
    feed, live = services.feed, inputs.live
    records, failures = _attempts(inputs)
    arrivals = list_arrivals(services, inputs.live, inputs.stored)
    return Index(
        feed=feed.feed,
        description=feed.description,
        owner=feed.owner,
        target=f"{services.names.project}.{services.names.dataset}.{services.names.target_table}",
        engine=feed.engine,
        landing=_landing(services),
        sla_minutes=feed.freshness.sla_minutes,
        expected=_expected(feed.freshness.expected_arrivals),
        max_age_minutes=feed.freshness.max_age_minutes,
        generation=live.generation if live else None,
        retention_days=live.table.retention_days if live else feed.table.retention_days,
        dates=_dates(live),
        records=records,
        failures=failures,
        arrivals=arrivals,
        checks=_checks(services, inputs),
        generations=_generations(services, inputs, records),
        excluded=live.excluded if live else (),
        time_travel=_time_travel(services, inputs),
        audit=_audit(services),
        stopped=_stopped(
            services, inputs, failures, [a.delivery for a in arrivals if a.state is DeliveryState.WAITING]
        ),
        held=_held(services, inputs),
    )


def _landing(services: Services) -> IndexLanding:
    landing, column = services.feed.landing, services.feed.table.partition_column
    files = f"{column}=YYYY-MM-DD/*.parquet" if landing.date_folders else "*.parquet"
    return IndexLanding(services.landing.store.uri(f"{landing.prefix}/"), files, landing.marker)


def _expected(arrivals: ExpectedArrivals | None) -> ExpectedTimes | None:
    return ExpectedTimes(arrivals.times, arrivals.zone, arrivals.grace_minutes) if arrivals else None


def _dates(live: Manifest | None) -> tuple[IndexDate, ...]:
    return tuple(IndexDate(e.date, e.rows, e.survivors) for e in live.dates) if live else ()


def _attempts(inputs: _Inputs) -> tuple[tuple[LedgerRecord, ...], tuple[LedgerRecord, ...]]:
    """The last MAX_RECORDS records of attempts that published, and the last MAX_FAILURES of attempts that did not."""
    published = [r for r in inputs.attempts if r.outcome is Outcome.PUBLISHED]
    others = [r for r in inputs.attempts if r.outcome is not Outcome.PUBLISHED]
    return tuple(published[-MAX_RECORDS:]), tuple(others[-MAX_FAILURES:])


def _checks(services: Services, inputs: _Inputs) -> tuple[IndexChecks, ...]:
    checks = list(inputs.stored.checks) if inputs.stored else []
    for record in inputs.new_attempts[-ATTEMPTS_WITH_CHECKS:]:
        results = [r for phase in ("before", "after") for r in _check_results(services, record.attempt, phase)]
        if results:
            checks.append(IndexChecks(record.attempt, record.generation, record.snapshot_id, tuple(results)))
    return tuple([c for c in checks if c.generation >= inputs.erasure_generation][-ATTEMPTS_WITH_CHECKS:])


def _check_results(services: Services, attempt: str, phase: str) -> Iterable[IndexVerdict]:
    results = find_check_results(services, attempt, phase)
    return [] if results is None else [_verdict(phase, result) for result in results.items]


def _verdict(phase: str, result: CheckResult) -> IndexVerdict:
    r = result
    return IndexVerdict(phase, r.check, str(r.level), r.found, r.expected, r.next_step, r.examples)


def _stopped(
    services: Services, inputs: _Inputs, failures: tuple[LedgerRecord, ...], waiting: list[Delivery]
) -> IndexStopped | None:
    # Examples of attempts before an erasure may hold erased keys.
    failures = tuple(r for r in failures if r.generation >= inputs.erasure_generation)
    stopped = find_stopped_publish(services, waiting, failures)
    if stopped is None:
        return None
    verdicts = tuple(_verdict("before", result) for result in stopped.failed)
    return IndexStopped(max(waiting), stopped.dag_id, stopped.run_id, verdicts, stopped.is_before_dedup)


def _held(services: Services, inputs: _Inputs) -> tuple[IndexStopped, ...]:
    """The held deliveries, with examples if the results of their attempts are still there."""
    return tuple(
        IndexStopped(
            held.delivery,
            held.dag_id,
            held.run_id,
            tuple(_verdict("before", result) for result in _with_examples(services, inputs, held)),
            is_before_dedup=False,
        )
        for held in find_held(services, inputs.live)[-HELD_LISTED:]
    )


def _with_examples(services: Services, inputs: _Inputs, held: HeldDelivery) -> Iterable[CheckResult]:
    results = find_check_results(services, held.attempt, "before")
    if results is None or (generation_of(held.attempt) or 0) < inputs.erasure_generation:
        return held.failed  # without examples, which may hold erased keys
    examples = {result.check: result.examples for result in results.items}
    return [replace(result, examples=examples.get(result.check, ())) for result in held.failed]


def _generations(services: Services, inputs: _Inputs, records: tuple[LedgerRecord, ...]) -> tuple[IndexGeneration, ...]:
    former = {g.generation: g for g in inputs.stored.generations} if inputs.stored else {}
    generations = []
    for record in records[-GENERATIONS_LISTED:]:
        generation = former.get(record.generation) or _generation(services, record)
        if generation is not None and record.generation < inputs.erasure_generation:
            generation = replace(generation, checked_at=None, data_folder=None)  # so that nobody restores erased keys
        if generation is not None:
            generations.append(generation)
    folders = {g.generation: g.data_folder for g in generations}
    # Prune retains the folders of the live generation and its parent.
    retained = {folders.get(inputs.live.generation), folders.get(inputs.live.parent or 0)} if inputs.live else set()
    return tuple(replace(g, has_files=g.data_folder is not None and g.data_folder in retained) for g in generations)


def _generation(services: Services, record: LedgerRecord) -> IndexGeneration | None:
    if record.swapped_at is None:
        return None
    swap = find_swap(services, record.attempt)
    manifest = services.manifests.find(record.generation)
    if manifest is None:
        return None  # without its manifest the generation cannot be restored
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


def _time_travel(services: Services, inputs: _Inputs) -> TimeTravel | None:
    """How far BigQuery's time travel reaches: read after a publish, otherwise taken from the stored index."""
    former = inputs.stored.time_travel if inputs.stored else None
    if all(record.outcome is not Outcome.PUBLISHED for record in inputs.new_attempts):
        return former
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
