"""Held deliveries: a check on the data stopped their publish. Only a replay of exactly such a delivery publishes it.

Later deliveries are published without it. Its rows are not lost: the delivery stays in landing and on the page, and the
watchdog reports it until a person replays or discards it, or a later delivery of its snapshot id replaces it.

A replay that would make the same candidate as the stopped attempt uses that candidate again, so accepting the check
costs no second dedup. From then on it is a publish like any other.

Checks that fail after the run acquired the lease are among the attempt's records. Those that fail earlier, before any
row is read, are kept in one record for the feed, until a publish passes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime

from dedup_clone.checks.check_result import CheckResult, CheckResults, accepted_failures, failures, without_examples
from dedup_clone.contract.attempt import Attempt, Kind
from dedup_clone.contract.delivery import Backlog, Delivery
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.records import to_json
from dedup_clone.publish.attempts import Form, best_effort, find_check_results, try_read
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.ledger import LAST_ATTEMPTS, LedgerRecord


@dataclass(frozen=True)
class StoppedPublish:
    """A run that was to publish `deliveries`, and the checks before the swap that `failed`, accepted ones included.

    `parent`: the generation that was live. `attempt`: empty if the checks failed before the run acquired the lease,
    when no row was read.
    """

    deliveries: tuple[Delivery, ...]
    dag_id: str
    run_id: str
    failed: tuple[CheckResult, ...]
    parent: int | None
    attempt: str = ""


def note_checks_before_dedup(
    services: Services, deliveries: tuple[Delivery, ...], parent: Manifest | None, results: CheckResults, form: Form
) -> None:
    """Record that checks stop these deliveries before dedup, and all that wait, or delete the record if they passed.

    A failure that a person accepted for a replay stops the deliveries that wait all the same. Never raises.
    """
    name, failed = services.layout.checks_before_dedup, failures(results)
    with best_effort(services, "the page may be wrong about checks before dedup until the next publish"):
        if failed:
            stopped = tuple(sorted({*deliveries, *services.arrivals.backlog(parent).apply}))
            generation = None if parent is None else parent.generation
            services.store.put(name, to_json(StoppedPublish(stopped, form.dag_id, form.run_id, failed, generation)))
        elif not accepted_failures(results.items):
            services.store.delete_prefix(name)


def find_stopped(
    services: Services, delivery: Delivery, dates: tuple[date, ...] | None, attempts: Sequence[LedgerRecord]
) -> StoppedPublish | None:
    """The last attempt to publish the delivery, or only these `dates` of it, if checks stopped it before its swap.

    `attempts`: the last ones, newest last. Those that ended before their checks do not count. Checks that a person
    accepted count as failed: the replay must be repeated.
    """
    for record in reversed(attempts):
        attempt = services.manifests.find_attempt(record.attempt) if delivery in record.deliveries else None
        if attempt is None or attempt.dates != dates:
            continue
        results = find_check_results(services, attempt.id, "before")
        if results is not None:
            failed = failures(results, with_accepted=True)
            if len(record.deliveries) > 1 and any(r.concerns_data for r in failed):
                return None  # the others are held now, and the newest is tried alone
            stopped = StoppedPublish(
                record.deliveries, record.dag_id, record.run_id, failed, record.parent, record.attempt
            )
            return stopped if failed else None
    return None


def find_stopped_before_dedup(services: Services) -> StoppedPublish | None:
    """The run that checks stopped before dedup, until a publish passes them; None if there is none."""
    name = services.layout.checks_before_dedup
    return try_read(services, f"[{name}] is ignored", lambda: services.store.read_record(StoppedPublish, name))


@dataclass(frozen=True)
class HeldDelivery:
    """A delivery that checks stopped, without their examples: an erasure of keys deletes those with the attempt."""

    delivery: Delivery
    held_at: datetime
    stopped: StoppedPublish


def find_evidence(services: Services, delivery: Delivery, dates: tuple[date, ...] | None) -> StoppedPublish | None:
    """What stopped the delivery, or only these `dates` of it, when it was last tried; None if nothing did."""
    attempts = services.ledger.recent(services.current.read().last_generation, LAST_ATTEMPTS)
    stopped = find_stopped(services, delivery, dates, attempts)
    if stopped is not None or dates is not None:
        return stopped
    held = services.store.read_record(HeldDelivery, services.layout.held_delivery(delivery))
    return None if held is None else held.stopped


def hold_stopped(services: Services, attempt: Attempt, candidate: Candidate | None) -> None:
    """Hold deliveries of this attempt, which ends, if a check on their data failed. Safe to repeat.

    Of several deliveries all but the newest are held: the next run tries the newest alone. Deliveries that the parent
    includes, and those of a replay of some dates, are not held. A failure that a person accepted counts, because the
    attempt ended without a swap: the replay must be repeated. If another failure stops the replay of a held
    delivery, the record says from then on what that replay found.
    """
    if attempt.kind is not Kind.PUBLISH or candidate is None or attempt.dates is not None:
        return
    results = find_check_results(services, attempt.id, "before")
    failed, is_stopped = failures(results, with_accepted=True), any(r.concerns_data for r in failures(results))
    if not any(result.concerns_data for result in failed):
        return
    refused = {item.delivery for item in candidate.refused}
    applied = tuple(delivery for delivery in attempt.deliveries if delivery not in refused)
    made_by = candidate.reused_from or attempt.id  # the files of the candidate are that attempt's
    stopped = StoppedPublish(applied, attempt.dag_id, attempt.run_id, without_examples(failed), attempt.parent, made_by)
    for delivery in applied[:-1] or applied:
        if delivery in attempt.folded:
            continue
        name, held = services.layout.held_delivery(delivery), HeldDelivery(delivery, services.now(), stopped)
        if services.store.create(name, to_json(held)):
            services.log(f"holds delivery [{delivery.name}]", snapshot_id=delivery.snapshot_id)
        elif is_stopped and (former := services.store.read_record(HeldDelivery, name)):
            services.store.put(name, to_json(replace(former, stopped=stopped)))


def find_held(services: Services, live: Manifest | None) -> list[HeldDelivery]:
    """The records of the deliveries that are held while `live` is the live generation, in ascending precedence."""
    return read_held(services, services.arrivals.backlog(live))


def read_held(services: Services, backlog: Backlog) -> list[HeldDelivery]:
    names = [services.layout.held_delivery(delivery) for delivery in backlog.held]
    return services.store.read_records(HeldDelivery, names)


def discard_held(services: Services, delivery: Delivery, reason: str) -> str:
    """Record that a person decided against a held delivery, which counts as refused then. Returns what happened.

    Raises ConfigurationError if the delivery is not held.
    """
    if delivery not in services.arrivals.backlog(services.find_live()).held:
        raise ConfigurationError(f"Delivery [{delivery.name}] is not held: there is nothing to discard.")
    text = f"discarded by a person: {reason}"
    services.arrivals.refuse(Refusal(delivery, text, services.now(), is_discarded=True))
    return f"Delivery [{delivery.name}] is discarded. A replay of it by hand would still publish it."


def find_reusable_candidate(
    services: Services, attempt: Attempt, live: Manifest | None
) -> tuple[Attempt, Candidate] | None:
    """The attempt with the parent's files, and the candidate that it takes from an attempt that a check stopped.

    None if deliveries, parent, settings, days or code differ, or if files are gone.
    """
    for held in find_held(services, live):
        if attempt.deliveries == (held.delivery,) and _is_kept(held, live):
            return _take_over(services, attempt, held.stopped.attempt)
    return None


def kept_folders(services: Services, live: Manifest | None) -> set[str]:
    """The data folders of stopped attempts whose candidates may be used again while `live` is the live generation."""
    kept = (held.stopped.attempt for held in find_held(services, live) if _is_kept(held, live))
    return {services.layout.data_folder(attempt) for attempt in kept}


def is_reused(services: Services, attempt: str) -> bool:
    """Whether the attempt has a candidate from another attempt, so that no dedup job has to run."""
    candidate = services.manifests.candidate(attempt)
    return candidate is not None and bool(candidate.reused_from)


def _is_kept(held: HeldDelivery, live: Manifest | None) -> bool:
    stopped, generation = held.stopped, None if live is None else live.generation
    return stopped.deliveries == (held.delivery,) and stopped.parent == generation


# What may differ between two attempts that make the same candidate.
_OF_ONE_RUN = {"id", "generation", "dag_id", "run_id", "reason", "taken_at", "is_replay", "accepted_checks"} | {
    "data_uri",
    "folder_uri",
    "parent_files",
}


def _take_over(services: Services, attempt: Attempt, former: str) -> tuple[Attempt, Candidate] | None:
    stopped, candidate = services.manifests.find_attempt(former), services.manifests.candidate(former)
    if stopped is None or candidate is None or candidate.manifest is None or stopped.changes_uri or attempt.changes_uri:
        return None
    does_the_same = all(
        getattr(attempt, f.name) == getattr(stopped, f.name) for f in fields(Attempt) if f.name not in _OF_ONE_RUN
    )
    if not does_the_same or not _has_files(services, candidate, candidate.manifest):
        return None
    manifest = replace(
        candidate.manifest,
        generation=attempt.generation,
        attempt=attempt.id,
        run_id=attempt.run_id,
        created_at=services.now(),
    )
    services.log(f"uses the result of attempt [{former}] again, so no dedup job runs", generation=attempt.generation)
    return (
        replace(attempt, parent_files=stopped.parent_files),
        replace(candidate, manifest=manifest, seconds={}, reused_from=former),
    )


def _has_files(services: Services, candidate: Candidate, manifest: Manifest) -> bool:
    try:
        files = services.manifests.candidate_files(candidate)
    except ContractViolation:
        return False
    return files is not None and services.manifests.files_exist(manifest, files)
