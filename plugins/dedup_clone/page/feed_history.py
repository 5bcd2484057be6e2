"""Reads what happened to a feed's deliveries, attempts and generations, from the records that say so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from dedup_clone.checks.check_result import CheckResult, CheckResults
from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Arrival, Backlog, Delivery
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.landed_objects import objects_by_date
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import from_json
from dedup_clone.freshness.verdict import FeedFile
from dedup_clone.publish.date_ranges import date_ranges
from dedup_clone.publish.held_deliveries import HeldDelivery, StoppedPublish, find_stopped_publish
from dedup_clone.state.arrivals import Arrivals, DeliveryLists, Refusal
from dedup_clone.state.audits import Audits
from dedup_clone.state.current import Current
from dedup_clone.state.layout import FeedLayout, generation_of
from dedup_clone.state.ledger import Ledger, LedgerRecord, Outcome
from dedup_clone.state.store import ObjectStore, in_parallel

R = TypeVar("R")
T = TypeVar("T")
log = logging.getLogger(__name__)


class FeedObjects:
    """The objects that the page of one feed needs.

    A damaged one is logged and counts as absent, so that it hides nothing else.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._changing: dict[str, tuple[int, Any]] = {}  # by object name: its object generation and its record
        self._known: dict[str, Any] = {}
        self._used: dict[str, Any] = {}

    def begin(self) -> None:
        """Forget what was not used since the last call."""
        self._known, self._used = self._used, {}

    def read(self, kind: type[R], name: str) -> R | None:
        """The record in an object that changes; None if it is absent. It is parsed again only if it has changed."""
        from google.api_core.exceptions import NotFound

        record: R | None
        known_generation, record = self._changing.get(name, (0, None))
        try:
            stored = self.store.read_if_changed(name, known_generation)
        except NotFound:
            self._changing.pop(name, None)
            return None
        if stored is not None:
            record = self._parse(kind, name, stored.text)
            self._changing[name] = (stored.object_generation, record)
        return record

    def read_once(self, kind: type[R], names: Sequence[str], keep: Callable[[R], T]) -> list[T]:
        """What `keep` returns of the records in these objects, without absent ones.

        They are written once, so they are requested only if they were not used before the last `begin`.
        """
        new = [name for name in names if name not in self._known and name not in self._used]
        for name, stored in zip(new, in_parallel(self.store.read, new), strict=True):
            record = None if stored is None else self._parse(kind, name, stored.text)
            if record is not None:
                self._known[name] = keep(record)
        self._used |= {name: self._known[name] for name in names if name in self._known}
        return [self._used[name] for name in names if name in self._used]

    def _parse(self, kind: type[R], name: str, text: str) -> R | None:
        try:
            return from_json(kind, text, where=self.store.uri(name))
        except ContractViolation as error:
            log.warning("%s", error)
            return None


ARRIVALS_LISTED = 100  # the newest; deliveries that wait or are held are listed in any case
ATTEMPTS_WITH_CHECKS = 10  # the last attempts whose check results are listed
HELD_LISTED = 20  # the newest held deliveries
MAX_DATES_TEXT = 3000  # characters of `dates` of one delivery: those of all weekdays in two years


class DeliveryState(StrEnum):
    """The state of a delivery.

    WAITING: registered, and not yet in the live generation. PUBLISHED: in the live generation. HELD: a check on its
    data stopped it. REFUSED: it breaks the data contract, or a person discarded it while it was held. EXCLUDED: a
    rollback took it out. SUPERSEDED: a later delivery of the same snapshot exists.
    """

    WAITING = "waiting"
    PUBLISHED = "published"
    HELD = "held"
    REFUSED = "refused"
    EXCLUDED = "excluded"
    SUPERSEDED = "superseded"


@dataclass(frozen=True)
class ListedArrival:
    """One registered delivery. `refusal`: None unless it was refused.

    `files`, `bytes`: number and total size of the objects in its folder, the marker excepted. `dates`: the dates of its
    date folders, as text with ranges; empty without date folders; None if they are too many.
    """

    delivery: Delivery
    arrived_at: datetime
    files: int
    bytes: int
    dates: str | None
    state: DeliveryState = DeliveryState.SUPERSEDED
    refusal: Refusal | None = None


@dataclass(frozen=True)
class FeedHistory:
    """The records of one feed, each kind in the order of time.

    `live`, `parent`: the manifests of the live generation and of its parent; None if there is none. `attempts`: the
    last that ended. `results`: those of the checks of some attempts, by attempt. `stopped`: the run that checks stopped
    with the newest waiting delivery. `held`: held deliveries, with examples if the results of their attempts are still
    there. `erasure_generation`: that of the last erasure, 0 if there was none lately; older generations may have erased
    keys.
    """

    feed_file: FeedFile
    live: Manifest | None
    parent: Manifest | None
    attempts: tuple[LedgerRecord, ...]
    arrivals: tuple[ListedArrival, ...]
    results: dict[str, tuple[CheckResults, ...]]
    stopped: StoppedPublish | None
    held: tuple[HeldDelivery, ...]
    audits: Audits | None
    erasure_generation: int = 0

    @property
    def published(self) -> list[LedgerRecord]:
        """The attempts that committed a generation."""
        return [record for record in self.attempts if record.outcome is Outcome.PUBLISHED]

    @property
    def failures(self) -> list[LedgerRecord]:
        """The attempts that committed no generation."""
        return [record for record in self.attempts if record.outcome is not Outcome.PUBLISHED]

    @property
    def waiting(self) -> list[ListedArrival]:
        """The deliveries that wait to be published, oldest first."""
        return [arrival for arrival in self.arrivals if arrival.state is DeliveryState.WAITING]


def read_history(objects: FeedObjects, current: Current, feed_file: FeedFile) -> FeedHistory:
    """The feed's history as of `current`."""
    layout, lists = FeedLayout(current.feed), Arrivals(objects.store, current.feed).lists()
    live = _manifest(objects, layout, current.generation)
    attempts = _attempts(objects, current)
    erasures = [r.generation for r in attempts if r.kind is Kind.ERASE and r.outcome is Outcome.PUBLISHED]
    erasure_generation = max(erasures, default=0)
    backlog = lists.backlog(live)
    names = [layout.held_delivery(delivery) for delivery in backlog.held[-HELD_LISTED:]]
    held = objects.store.read_reports(HeldDelivery, names)

    def results(attempt: str) -> tuple[CheckResults, ...]:
        """The results of an attempt's checks, unless examples in them may be erased keys."""
        if (generation_of(attempt) or 0) < erasure_generation:
            return ()
        phases = [layout.check_results(attempt, phase) for phase in ("before", "after")]
        return tuple(objects.read_once(CheckResults, phases, lambda found: found))

    def results_before(attempt: str) -> CheckResults | None:
        return next((found for found in results(attempt) if found.phase == "before"), None)

    failures = [r for r in attempts if r.outcome is not Outcome.PUBLISHED]
    recent = [record.attempt for record in attempts[-ATTEMPTS_WITH_CHECKS:]]
    found = zip(recent, in_parallel(results, recent), strict=True)
    return FeedHistory(
        feed_file=feed_file,
        live=live,
        parent=_manifest(objects, layout, live.parent if live else None),
        attempts=tuple(attempts),
        arrivals=_arrivals(objects, layout, lists, backlog, live, feed_file.partition_column),
        results={attempt: phases for attempt, phases in found if phases},
        stopped=find_stopped_publish(
            backlog.apply, objects.read(StoppedPublish, layout.checks_before_dedup), failures, results_before
        ),
        held=tuple(replace(h, failed=_with_examples(h.failed, results_before(h.attempt))) for h in held),
        audits=objects.read(Audits, layout.audits),
        erasure_generation=erasure_generation,
    )


def _manifest(objects: FeedObjects, layout: FeedLayout, generation: int | None) -> Manifest | None:
    names = [] if generation is None else [layout.manifest(generation)]
    return next(iter(objects.read_once(Manifest, names, lambda manifest: manifest)), None)


def _attempts(objects: FeedObjects, current: Current) -> list[LedgerRecord]:
    """The records of the last attempts, and that of the live generation."""
    ledger = Ledger(objects.store, current.feed)
    names = ledger.recent_names(current.last_generation)
    attempts = objects.read_once(LedgerRecord, names, lambda record: record)
    if all(record.generation != current.generation for record in attempts):
        live = ledger.of_generation(current.generation)
        return [live, *attempts] if live else attempts
    return attempts


def _with_examples(failed: Iterable[CheckResult], results: CheckResults | None) -> tuple[CheckResult, ...]:
    examples = {result.check: result.examples for result in results.items} if results else {}
    return tuple(replace(result, examples=examples.get(result.check, ())) for result in failed)


def _arrivals(
    objects: FeedObjects,
    layout: FeedLayout,
    lists: DeliveryLists,
    backlog: Backlog,
    live: Manifest | None,
    partition_column: str,
) -> tuple[ListedArrival, ...]:
    """The newest deliveries and all that wait or are held, in the order of their arrival."""
    states = {
        DeliveryState.WAITING: set(backlog.apply),
        DeliveryState.HELD: set(backlog.held),
        DeliveryState.EXCLUDED: set(live.excluded if live else ()),
        DeliveryState.PUBLISHED: set(live.deliveries if live else ()),
        DeliveryState.REFUSED: set(lists.refused),
    }

    def state_of(delivery: Delivery) -> DeliveryState:
        return next((state for state, found in states.items() if delivery in found), DeliveryState.SUPERSEDED)

    def summarize(arrival: Arrival) -> ListedArrival:
        dates = ", ".join(date_ranges(objects_by_date(arrival, partition_column)))
        return ListedArrival(
            delivery=arrival.delivery,
            arrived_at=arrival.arrived_at,
            files=len(arrival.objects),
            bytes=sum(item.size for item in arrival.objects),
            dates=dates if len(dates) <= MAX_DATES_TEXT else None,
        )

    listed = sorted({*lists.registered[-ARRIVALS_LISTED:], *backlog.apply, *backlog.held})
    arrivals = objects.read_once(Arrival, [layout.arrival(delivery) for delivery in listed], summarize)
    refused = [layout.refusal(delivery) for delivery in listed if state_of(delivery) is DeliveryState.REFUSED]
    refusals = {refusal.delivery: refusal for refusal in objects.read_once(Refusal, refused, lambda refusal: refusal)}
    found = [replace(a, state=state_of(a.delivery), refusal=refusals.get(a.delivery)) for a in arrivals]
    return tuple(sorted(found, key=lambda a: (a.arrived_at, a.delivery)))
