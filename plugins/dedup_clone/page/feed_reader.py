"""Reads what the page shows from the state bucket.

Each request reads listings and objects that change, and of objects that are written once only new ones. The list of all
feeds needs one listing, and only those verdicts that are new.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Arrival, Delivery
from dedup_clone.contract.manifest import Manifest
from dedup_clone.freshness.verdict import FreshnessVerdict
from dedup_clone.state.arrivals import Arrivals, Refusal
from dedup_clone.state.audits import Audits
from dedup_clone.state.current import Current, Intent
from dedup_clone.state.layout import FRESHNESS_FOLDER, FeedLayout, generation_of
from dedup_clone.state.ledger import Ledger, LedgerRecord, Outcome
from dedup_clone.state.store import ObjectInfo, ObjectStore, in_parallel

R = TypeVar("R")
T = TypeVar("T")
DELIVERIES_LISTED = 100  # the newest by snapshot id, and by time; those that wait or are held are listed in any case
ATTEMPTS_WITH_CHECKS = 10  # the last attempts whose check results are read, besides those of held deliveries


@dataclass(frozen=True)
class JobProgress:
    """What the Spark job writes every few seconds: of its running tasks, `done` of `of` are done. `of`: 0 if none runs.

    `at`: when the job wrote it.
    """

    phase: str
    done: int
    of: int
    at: datetime


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
class ListedDelivery:
    """A registered delivery. `files`, `bytes`: number and total size of the objects in its folder, without the marker.

    `refusal`: why it was refused; empty unless it was.
    """

    delivery: Delivery
    arrived_at: datetime
    files: int
    bytes: int
    state: DeliveryState = DeliveryState.SUPERSEDED
    refusal: str = ""


@dataclass(frozen=True)
class FeedRecords:
    """The stored records of one feed, each kind in the order of time.

    `intent`: the run that holds the lease, `progress`: how far its dedup job is; None without a run, or if that is not
    known. `live`: the manifest of the live generation. `attempts`: the last that ended.
    `results`: those of the checks of some attempts, by attempt.
    """

    verdict: FreshnessVerdict
    intent: Intent | None = None
    progress: JobProgress | None = None
    live: Manifest | None = None
    attempts: tuple[LedgerRecord, ...] = ()
    deliveries: tuple[ListedDelivery, ...] = ()
    results: dict[str, tuple[CheckResults, ...]] = field(default_factory=dict)
    audits: Audits | None = None

    @property
    def published(self) -> list[LedgerRecord]:
        """The attempts that committed a generation."""
        return [record for record in self.attempts if record.outcome is Outcome.PUBLISHED]

    @property
    def oldest_restorable(self) -> int:
        """The generation beyond which no rollback goes: that of the last erasure or rebuild; 0 if none was lately."""
        return max((r.generation for r in self.published if r.kind in (Kind.ERASE, Kind.REBUILD)), default=0)


class FeedReader:
    """Reads the records of all feeds. `open_store`: returns the state bucket; called once, by the first request."""

    def __init__(self, open_store: Callable[[], ObjectStore]) -> None:
        self._open_store = functools.cache(open_store)
        self._known: dict[str, dict[str, Any]] = {}  # by feed: what its last reading used of objects written once
        self._verdicts: dict[ObjectInfo, FreshnessVerdict | None] = {}  # as last listed; None: it cannot be read

    def overview(self) -> list[FreshnessVerdict]:
        """Each feed's verdict, ordered by the feed's name."""
        store, known = self._open_store(), self._verdicts

        def read(listed: ObjectInfo) -> FreshnessVerdict | None:
            return known[listed] if listed in known else _newest(store, FreshnessVerdict, listed.name)

        listed = list(store.objects(FRESHNESS_FOLDER))
        found = in_parallel(read, listed)
        self._verdicts = dict(zip(listed, found, strict=True))
        return [verdict for verdict in found if verdict is not None]

    def read(self, feed: str) -> FeedRecords | None:
        """The records of one feed; None if it has no verdict, or if the verdict cannot be read."""
        reading = _Reading(self._open_store(), feed, self._known.get(feed, {}))
        records = reading.read()
        if reading.used:
            self._known[feed] = reading.used
        return records


def _newest(store: ObjectStore, kind: type[R], name: str) -> R | None:
    """The record as it is now; None if it is absent or damaged."""
    return next(iter(store.read_reports(kind, [name])), None)


class _Reading:
    """One reading of a feed's records.

    `known`, `used`: what the last reading used of objects that are written once, and what this one does, by name.
    A damaged object is logged and counts as absent, so that it hides nothing else.
    """

    def __init__(self, store: ObjectStore, feed: str, known: dict[str, Any]) -> None:
        self._store = store
        self._layout = FeedLayout(feed)
        self._known = known
        self.used: dict[str, Any] = {}

    def read(self) -> FeedRecords | None:
        feed, layout = self._layout.feed, self._layout
        verdict = _newest(self._store, FreshnessVerdict, layout.freshness)
        if verdict is None:
            return None
        current = _newest(self._store, Current, layout.current) or Current(feed, None, None, 0, None)
        intent = current.intent
        records = FeedRecords(
            verdict=verdict,
            intent=intent,
            progress=_newest(self._store, JobProgress, layout.progress(intent.attempt)) if intent else None,
        )
        return records if verdict.feed_file is None else self._with_history(records, current)

    def _with_history(self, records: FeedRecords, current: Current) -> FeedRecords:
        names = [] if current.generation is None else [self._layout.manifest(current.generation)]
        live = next(iter(self._read_once(Manifest, names, lambda manifest: manifest)), None)
        attempts = self._attempts(current)
        erasures = [r.generation for r in attempts if r.kind is Kind.ERASE and r.outcome is Outcome.PUBLISHED]
        erasure_generation = max(erasures, default=0)
        checked = [record.attempt for record in attempts[-ATTEMPTS_WITH_CHECKS:]]
        held = [one.stopped.attempt for one in records.verdict.held]
        checked += [attempt for attempt in held if attempt not in checked]
        # Examples in the results of older attempts may be erased keys.
        checked = [attempt for attempt in checked if (generation_of(attempt) or 0) >= erasure_generation]
        results = zip(checked, in_parallel(self._results, checked), strict=True)
        return replace(
            records,
            live=live,
            attempts=tuple(attempts),
            deliveries=self._deliveries(live),
            results={attempt: phases for attempt, phases in results if phases},
            audits=_newest(self._store, Audits, self._layout.audits),
        )

    def _read_once(self, kind: type[R], names: Sequence[str], keep: Callable[[R], T]) -> list[T]:
        """What `keep` returns of the records in these objects, without absent ones.

        They are written once, so those that the last reading used are not requested.
        """

        def find(name: str) -> T | None:
            if name in self._known:
                return self._known[name]  # type: ignore[no-any-return]
            record = _newest(self._store, kind, name)
            return None if record is None else keep(record)

        found = {name: kept for name, kept in zip(names, in_parallel(find, names), strict=True) if kept is not None}
        self.used |= found
        return list(found.values())

    def _attempts(self, current: Current) -> list[LedgerRecord]:
        """The records of the last attempts, and that of the live generation."""
        ledger = Ledger(self._store, current.feed)
        names = ledger.recent_names(current.last_generation)
        attempts = self._read_once(LedgerRecord, names, lambda record: record)
        if all(record.generation != current.generation for record in attempts):
            live = ledger.of_generation(current.generation)
            return [live, *attempts] if live else attempts
        return attempts

    def _results(self, attempt: str) -> tuple[CheckResults, ...]:
        names = [self._layout.check_results(attempt, phase) for phase in ("before", "after")]
        return tuple(self._read_once(CheckResults, names, lambda found: found))

    def _deliveries(self, live: Manifest | None) -> tuple[ListedDelivery, ...]:
        """The newest deliveries and all that wait or are held, in the order of their arrival."""
        lists = Arrivals(self._store, self._layout.feed).lists()
        backlog = lists.backlog(live)
        states = {
            DeliveryState.WAITING: set(backlog.apply),
            DeliveryState.HELD: set(backlog.held),
            DeliveryState.EXCLUDED: set(live.excluded if live else ()),
            DeliveryState.PUBLISHED: set(live.deliveries if live else ()),
            DeliveryState.REFUSED: set(lists.refused),
        }

        def state_of(delivery: Delivery) -> DeliveryState:
            return next((state for state, found in states.items() if delivery in found), DeliveryState.SUPERSEDED)

        def summarize(arrival: Arrival) -> ListedDelivery:
            size = sum(item.size for item in arrival.objects)
            return ListedDelivery(arrival.delivery, arrival.arrived_at, len(arrival.objects), size)

        by_time = sorted(lists.registered, key=lambda delivery: delivery.marker_generation)
        newest = {*[*lists.registered][-DELIVERIES_LISTED:], *by_time[-DELIVERIES_LISTED:]}
        listed = sorted({*newest, *backlog.apply, *backlog.held})
        found = self._read_once(Arrival, [self._layout.arrival(delivery) for delivery in listed], summarize)
        refused = [self._layout.refusal(delivery) for delivery in listed if state_of(delivery) is DeliveryState.REFUSED]
        reasons = {r.delivery: r.reason for r in self._read_once(Refusal, refused, lambda refusal: refusal)}
        shown = [replace(d, state=state_of(d.delivery), refusal=reasons.get(d.delivery, "")) for d in found]
        return tuple(sorted(shown, key=lambda d: (d.arrived_at, d.delivery)))
