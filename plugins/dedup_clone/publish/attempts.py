"""Begins an attempt, and writes and reads what it leaves in state.

What only reports on an attempt is best effort: it must not hold up or fail a commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import dedup_clone
from dedup_clone.checks.check_result import CheckResult, CheckResults, Level, failures
from dedup_clone.contract.attempt import Attempt, Kind, Swap
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import RefusedDelivery
from dedup_clone.contract.records import to_json
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.current import Intent

T = TypeVar("T")


@contextmanager
def best_effort(services: Services, consequence: str) -> Iterator[None]:
    """Log a failure of the block as a warning that begins with `consequence`, and never raise it."""
    try:
        yield
    except Exception as error:
        services.log(f"{consequence}: {type(error).__name__}: {error}", level=logging.WARNING)


def try_read(services: Services, consequence: str, read: Callable[[], T]) -> T | None:
    """The result of `read`. A failure is logged as in `best_effort`, and the result is None."""
    with best_effort(services, consequence):
        return read()
    return None


@dataclass(frozen=True, kw_only=True)
class Form:
    """What the forms of all operations have: which run was triggered with it, and why."""

    dag_id: str
    run_id: str
    reason: str


def acquire_lease(services: Services, form: Form, kind: Kind, parent: int | None) -> Intent:
    """Acquire the lease for the run of `form`. Raises what `CurrentFile.acquire_lease` raises."""
    return services.current.acquire_lease(
        services.environment, parent, kind, dag_id=form.dag_id, run_id=form.run_id, now=services.now()
    )


def begin_attempt(
    services: Services,
    form: Form,
    kind: Kind,
    parent: int | None,
    *,
    engine: Engine = Engine.SPARK,
    snapshot_id: int = 0,
) -> Attempt:
    """Acquire the lease and return the new attempt, as far as feed file and lease say what it does.

    The caller adds what only this kind of attempt has, and writes the record.
    """
    return new_attempt(services, acquire_lease(services, form, kind, parent), form.reason, engine, snapshot_id)


def new_attempt(services: Services, intent: Intent, reason: str, engine: Engine, snapshot_id: int) -> Attempt:
    """What the attempt of `intent` does, as far as the feed file says it."""
    feed, layout, store, parent = services.feed, services.layout, services.store, intent.parent
    oldest, latest = services.retention_window()  # fixed for the whole run, which may last past midnight
    finds_changes = engine is Engine.CDC or (feed.changes and engine is Engine.SPARK)
    return Attempt(
        id=intent.attempt,
        feed=feed.feed,
        kind=intent.kind,
        generation=intent.generation,
        parent=parent,
        dag_id=intent.dag_id,
        run_id=intent.run_id,
        reason=reason,
        snapshot_id=snapshot_id,
        taken_at=intent.taken_at,
        code_version=dedup_clone.__version__,
        engine=engine,
        table=feed.table.to_contract(),
        update_id_mode=feed.update_id_mode,
        date_folders=feed.landing.date_folders,
        plan=feed.dedup.plan,
        retention_day=oldest,
        latest_day=latest,
        arrivals_uri=store.uri(layout.arrivals),
        folder_uri=store.uri(layout.attempt_folder(intent.attempt)),
        data_uri=store.uri(layout.data_folder(intent.attempt)),
        seed_uri=store.uri(layout.fingerprint_seed),
        exact=feed.dedup.exact,
        since=feed.table.since(),
        form=feed.form,
        changes_uri=store.uri(layout.changes_folder(intent.attempt)) if finds_changes else "",
        has_deleted=parent is not None and services.manifests.read(parent).has_deleted,
    )


def write_attempt(services: Services, attempt: Attempt, what: str) -> None:
    """Write the record of the attempt, and log `what` it does."""
    services.manifests.write_attempt(attempt)
    text = f"acquired the lease for attempt [{attempt.id}] on parent [{attempt.parent}]: {what}"
    services.log(text, snapshot_id=attempt.snapshot_id, generation=attempt.generation)


_LOG_LEVELS = {Level.PASS: logging.INFO, Level.WARN: logging.WARNING, Level.FAIL: logging.ERROR}


def save_check_results(
    services: Services, attempt: Attempt, results: CheckResults, *, replaces: int | None = None
) -> None:
    """Write the results into the attempt's folder, and log one line for each.

    `replaces`: the object generation of the results that they may replace; 0: none; None: any. Raises LostRace if there
    are others.
    """
    name, text = services.layout.check_results(attempt.id, results.phase), to_json(results)
    if replaces is None:
        services.store.put(name, text)
    else:
        services.store.replace(name, text, expected_object_generation=replaces)
    for item in results.items:
        level = _LOG_LEVELS[item.level]
        services.log(f"check {item}", snapshot_id=attempt.snapshot_id, generation=attempt.generation, level=level)


def find_check_results(services: Services, attempt: str, phase: str) -> CheckResults | None:
    """The results of phase `before` or `after` the swap; None when the attempt ended earlier or was pruned."""
    return services.store.read_record(CheckResults, services.layout.check_results(attempt, phase))


def failed_checks(services: Services, attempt: str, phase: str = "before") -> tuple[CheckResult, ...]:
    """The attempt's checks `before` or `after` the swap that failed; none if it ended earlier, or was pruned."""
    return failures(find_check_results(services, attempt, phase))


@dataclass(frozen=True)
class SwapSpec:
    """What was checked and is allowed to go live: staging as of `checked_at`.

    `generation`, `parent` and `snapshot` are text, because the swap's SQL takes them as text parameters; `parent` is
    empty for a first generation. `manifest` is the manifest's digest. `description`, `expiration_days`: the text, and
    the days for which target keeps a partition, that the swap sets on target. `bytes_billed` is that of the feed's own
    queries. `staging_bytes`: logical size of the checked table. `options`: the feed file's options that the swap sets
    on target (see warehouse/table_options.py). `way`: see publish/swap.py. `previous_days`: how long the table that is
    replaced stays as `FEED_previous`; 0 if it does not.
    """

    attempt: str
    generation: str
    parent: str
    snapshot: str
    manifest: str
    description: str
    checked_at: datetime
    expiration_days: int
    bytes_billed: int
    staging_bytes: int
    options: dict[str, str] = field(default_factory=dict)
    way: Swap = Swap.CLONE
    previous_days: int = 0


def find_swap(services: Services, attempt: str) -> SwapSpec | None:
    """What the attempt was allowed to swap; None if it failed earlier or was pruned."""
    return services.store.read_record(SwapSpec, services.layout.swap_spec(attempt))


def arrived_at(services: Services, attempt: Attempt) -> datetime:
    """When the newest delivery arrived; when the lease was acquired, if there is none or its arrival is not known."""
    if not attempt.landed_deliveries:
        return attempt.taken_at
    consequence = f"the arrival of attempt [{attempt.id}] is not known"
    arrival = try_read(services, consequence, lambda: services.arrivals.read(attempt.landed_deliveries[-1]))
    return arrival.arrived_at if arrival else attempt.taken_at


def record_refusals(services: Services, refused: Iterable[RefusedDelivery]) -> None:
    """Record refused deliveries, so that no later publish includes them."""
    for item in refused:
        services.arrivals.refuse(Refusal(item.delivery, item.reason, services.now()))
        services.log(f"refused delivery [{item.delivery.name}]: {item.reason}", snapshot_id=item.delivery.snapshot_id)
