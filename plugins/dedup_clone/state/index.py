"""index.json: everything that the page Snapshots shows of a feed, in one object, derived from the feed's records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.ledger import RECENT_ATTEMPTS, Ledger, LedgerRecord, Outcome
from dedup_clone.state.store import ObjectStore, StoredText

MAX_RECORDS = 1000  # in `Index.records`
MAX_FAILURES = RECENT_ATTEMPTS  # in `Index.failures`


@dataclass(frozen=True)
class IndexDate:
    """One partition of the live generation."""

    date: date
    rows: int
    survivors: int


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
class IndexArrival:
    """One registered delivery. `reason`, `refused_at`: set only if it was refused.

    `files`, `bytes`: number and total size of the objects in its folder, the marker excepted. `dates`: the dates of its
    date folders, as text with ranges; empty without date folders, or if they are not known; None if they are too many.
    """

    delivery: Delivery
    arrived_at: datetime
    files: int
    bytes: int
    state: DeliveryState
    reason: str
    refused_at: datetime | None
    dates: str | None = ""


@dataclass(frozen=True)
class IndexVerdict:
    """The result of one check (see CheckResult). `phase`: `before` or `after` the swap. `level`: pass, warn or fail."""

    phase: str
    check: str
    level: str
    found: str
    expected: str
    next_step: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexChecks:
    """The check results of one attempt."""

    attempt: str
    generation: int
    snapshot_id: int
    verdicts: tuple[IndexVerdict, ...]


@dataclass(frozen=True)
class IndexStopped:
    """A delivery that waits or is held, and that the checks of `verdicts` stopped before its swap in this run.

    `is_before_dedup`: whether they ran before any row was read; such a run is repeated.
    """

    delivery: Delivery
    dag_id: str
    run_id: str
    verdicts: tuple[IndexVerdict, ...]
    is_before_dedup: bool


@dataclass(frozen=True)
class IndexGeneration:
    """A committed generation.

    `restores`: as in LedgerRecord (ledger.py). `checked_at`: a time at which staging contained the generation; None if
    there is none or it is not known. `has_files`: whether prune retains the generation's data folder. Of generations
    before an erasure, `checked_at` and `data_folder` are None, so that nobody restores erased keys.
    """

    generation: int
    restores: int | None
    snapshot_id: int
    rows: int
    swapped_at: datetime
    checked_at: datetime | None
    data_folder: str | None
    has_files: bool


@dataclass(frozen=True)
class ExpectedTimes:
    """A snapshot is due every day at each of `times` (HH:MM) in `zone`, and overdue `grace_minutes` later."""

    times: tuple[str, ...]
    zone: str
    grace_minutes: int


@dataclass(frozen=True)
class IndexLanding:
    """Where deliveries land. `folder`: a URI ending in `/`. `files`, `marker`: what a delivery's folder holds."""

    folder: str
    files: str
    marker: str


@dataclass(frozen=True)
class TimeTravel:
    """How far back staging can be read: `hours`, but not beyond `staging_created_at`."""

    hours: float
    staging_created_at: datetime


@dataclass(frozen=True)
class IndexAudit:
    """The content audit. `unequal_dates`: the partitions of target that differ from the published files.

    All other fields describe the last comparison of a partition.
    """

    unequal_dates: tuple[date, ...]
    date: date
    generation: int
    outcome: str
    audited_at: datetime


@dataclass(frozen=True)
class Index:
    """One feed: its settings, the live generation's partitions, and the newest records of each kind, newest last.

    `generation` is None before the first publish. `records`: attempts that committed a generation. `failures`: attempts
    that committed none. `stopped`: None if no check stopped the newest waiting delivery.
    """

    feed: str
    description: str
    owner: str
    target: str
    engine: Engine
    landing: IndexLanding
    sla_minutes: int
    expected: ExpectedTimes | None
    max_age_minutes: int | None
    generation: int | None
    retention_days: int
    dates: tuple[IndexDate, ...]
    records: tuple[LedgerRecord, ...]
    failures: tuple[LedgerRecord, ...]
    arrivals: tuple[IndexArrival, ...]
    checks: tuple[IndexChecks, ...]
    generations: tuple[IndexGeneration, ...]
    excluded: tuple[Delivery, ...]
    time_travel: TimeTravel | None
    audit: IndexAudit | None
    stopped: IndexStopped | None = None
    held: tuple[IndexStopped, ...] = ()


@dataclass(frozen=True)
class StoredIndex:
    """The index and its object generation.

    `index` is None if the object is absent, is damaged, or was written by another release in another form.
    `object_generation` is 0 if the object is absent.
    """

    index: Index | None
    object_generation: int


class IndexFile:
    """Reads index.json of one feed, and replaces it unless another process wrote it since it was read."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._name = FeedLayout(feed).index

    def read(self) -> StoredIndex:
        """The stored index."""
        stored = self._store.read(self._name)
        return StoredIndex(None, 0) if stored is None else StoredIndex(self._parse(stored), stored.object_generation)

    def write(self, index: Index, *, expected_object_generation: int) -> None:
        """Replace the index. Raises LostRace if it changed since it was read; the caller then derives it anew."""
        self._store.replace(self._name, to_json(index), expected_object_generation=expected_object_generation)

    def _parse(self, stored: StoredText) -> Index | None:
        try:
            return from_json(Index, stored.text, where=self._store.uri(self._name))
        except ContractViolation:
            return None  # damaged, or written by another release; the index can be derived anew


def ended_attempts(store: ObjectStore, feed: str) -> list[LedgerRecord]:
    """The ledger records of the newest attempts, newest last."""
    return indexed_and_later_attempts(store, feed, IndexFile(store, feed).read().index)


def indexed_and_later_attempts(store: ObjectStore, feed: str, index: Index | None) -> list[LedgerRecord]:
    """The records in the index, and those of attempts that ended since the index was written, newest last.

    `index`: None if there is no readable index; the newest MAX_RECORDS records of the ledger are then returned.
    """
    ledger = Ledger(store, feed)
    if index is None:
        return ledger.read_last(MAX_RECORDS)
    indexed = [*index.records, *index.failures]
    later = ledger.read_later([record.attempt for record in indexed])
    return sorted([*indexed, *later], key=lambda record: record.attempt)


def published_records(store: ObjectStore, feed: str) -> list[LedgerRecord]:
    """The ledger records of the newest attempts that committed a generation, newest last."""
    return [r for r in ended_attempts(store, feed) if r.outcome is Outcome.PUBLISHED]
