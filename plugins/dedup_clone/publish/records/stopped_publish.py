"""Which checks before the swap stopped the newest waiting delivery: watchdog, page and repeats ask here.

Checks that fail after the run acquired the lease are among the attempt's records. Those that fail earlier, before any
row is read, are kept in one record for the feed, until a publish passes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from dedup_clone.checks.check_result import CheckResult, CheckResults, failures
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.records import to_json
from dedup_clone.publish.records.best_effort import best_effort, try_read
from dedup_clone.publish.services import Services
from dedup_clone.state.ledger import LedgerRecord, Stage


@dataclass(frozen=True)
class StoppedPublish:
    """A run that was to publish `deliveries`, and the checks before the swap that `failed`, accepted ones included.

    `is_before_dedup`: whether these are checks that run before any row is read.
    """

    deliveries: tuple[Delivery, ...]
    dag_id: str
    run_id: str
    failed: tuple[CheckResult, ...]
    is_before_dedup: bool = False


def note_checks_before_dedup(
    services: Services, deliveries: tuple[Delivery, ...], results: CheckResults, *, dag_id: str, run_id: str
) -> None:
    """Record that checks stop these deliveries before dedup, or delete the record if they passed. Never raises."""
    name, failed = services.layout.checks_before_dedup, failures(results)
    with best_effort(services, "the page may be wrong about checks before dedup until the next publish"):
        if failed:
            stopped = StoppedPublish(deliveries, dag_id, run_id, failed, is_before_dedup=True)
            services.store.put(name, to_json(stopped))
        else:
            services.store.delete_prefix(name)


def find_stopped_publish(
    waiting: Collection[Delivery],
    before_dedup: StoppedPublish | None,
    failed_attempts: Sequence[LedgerRecord],
    results_before: Callable[[str], CheckResults | None],
) -> StoppedPublish | None:
    """The last run that checked the newest of the `waiting` deliveries, if checks stopped it before its swap.

    `before_dedup`: the run that checks stopped before dedup, if any. `failed_attempts`: the ledger records of attempts
    that committed no generation, newest last. Those that ended before their checks, or had other deliveries, do not
    count. `results_before`: returns the results of an attempt's checks before the swap. Checks that a person accepted
    count as failed: such an attempt ended because nobody approved it, or later.
    """
    if not waiting:
        return None
    newest = max(waiting)
    if before_dedup is not None and newest in before_dedup.deliveries:
        return before_dedup
    for record in reversed(failed_attempts):
        if newest not in record.deliveries or record.stage is not Stage.CHECK:
            continue
        results = results_before(record.attempt)
        if results is not None:
            failed = failures(results, with_accepted=True)
            if len(record.deliveries) > 1 and any(r.concerns_data for r in failed):
                return None  # the others are held now, and the newest is tried alone
            return StoppedPublish(record.deliveries, record.dag_id, record.run_id, failed) if failed else None
    return None


def find_stopped_before_dedup(services: Services) -> StoppedPublish | None:
    """The run that checks stopped before dedup, until a publish passes them; None if there is none."""
    name = services.layout.checks_before_dedup
    return try_read(services, f"[{name}] is ignored", lambda: services.store.read_record(StoppedPublish, name))
