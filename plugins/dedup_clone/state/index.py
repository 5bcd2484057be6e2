"""index.json: everything that the page shows of a feed, in one object. It is derived from the other records."""

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

MAX_RECORDS = 1000
MAX_FAILURES = RECENT_ATTEMPTS


@dataclass(frozen=True)
class IndexDate:
    """One partition of the live generation."""

    date: date
    rows: int
    survivors: int


class Fate(StrEnum):
    """The state of a delivery.

    WAITING: registered, and not yet in the live generation. PUBLISHED: in the live generation. REFUSED: it breaks the
    data contract. EXCLUDED: a rollback took it out. SUPERSEDED: a later delivery of the same snapshot exists.
    """

    WAITING = "waiting"
    PUBLISHED = "published"
    REFUSED = "refused"
    EXCLUDED = "excluded"
    SUPERSEDED = "superseded"


@dataclass(frozen=True)
class IndexArrival:
    """One registered delivery. `bytes`: size of its files. `reason`, `refused_at`: set only if it was refused.

    `dates`: those of its folders, as ranges; empty if it has no date folders, or if they are not known.
    """

    delivery: Delivery
    arrived_at: datetime
    files: int
    bytes: int
    fate: Fate
    reason: str
    refused_at: datetime | None
    dates: str = ""


@dataclass(frozen=True)
class IndexVerdict:
    """The result of one check. `phase`: `before` or `after` the swap. `level`: pass, warn or fail."""

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
class IndexGeneration:
    """A committed generation, which staging contained at `checked_at` (None: it never did, or that is unknown).

    `has_files`: its data folder still exists.
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
class TimeTravel:
    """How far back staging can be read: `hours`, but not to before the table was created."""

    hours: float
    staging_created_at: datetime


@dataclass(frozen=True)
class IndexAudit:
    """`unequal_dates`: the partitions of target that differ from the published files. The rest: the last comparison."""

    unequal_dates: tuple[date, ...]
    date: date
    generation: int
    outcome: str
    audited_at: datetime


@dataclass(frozen=True)
class IndexProjection:
    """What a complete snapshot would cost at the feed's full size, `times` the bytes of the table as it is, in USD.

    `usd` is without Spark; `spark_usd` is None if the cost of the last Spark run is not known.
    """

    full_size_gb: float
    times: float
    usd: float
    spark_usd: float | None
    merge_usd: float
    qualify_usd: float


@dataclass(frozen=True)
class Index:
    """One feed: its settings, the live generation's partitions, and the newest records of each kind, newest last.

    `promise_minutes` is the feed's `sla_minutes`; the stored name is older. `generation` is None before the first
    publish. `records`: attempts that published or rolled back. `failures`: attempts that changed nothing.
    """

    feed: str
    description: str
    owner: str
    target: str
    engine: Engine
    promise_minutes: int
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
    projection: IndexProjection | None = None


@dataclass(frozen=True)
class StoredIndex:
    """The index and its object generation.

    `index` is None if the object is absent or another version wrote it; `object_generation` is 0 if it is absent.
    """

    index: Index | None
    object_generation: int


class IndexFile:
    """Reads index.json, and replaces it if it is unchanged since it was read."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._name = FeedLayout(feed).index

    def read(self) -> StoredIndex:
        """The stored index."""
        stored = self._store.read(self._name)
        return StoredIndex(None, 0) if stored is None else StoredIndex(self._parse(stored), stored.object_generation)

    def write(self, index: Index, *, expected_object_generation: int) -> None:
        """Replace the index. Raises LostRace when the stored one changed since it was read; derive the index again."""
        self._store.replace(self._name, to_json(index), expected_object_generation=expected_object_generation)

    def _parse(self, stored: StoredText) -> Index | None:
        try:
            return from_json(Index, stored.text, where=self._store.uri(self._name))
        except ContractViolation:
            return None  # written by another version; it can be derived again


def ended_attempts(store: ObjectStore, feed: str) -> list[LedgerRecord]:
    """The newest records of attempts, newest last."""
    return attempts_since(store, feed, IndexFile(store, feed).read().index)


def attempts_since(store: ObjectStore, feed: str, index: Index | None) -> list[LedgerRecord]:
    """The records of the attempts in the index, and of those that ended since the index was written, newest last."""
    ledger = Ledger(store, feed)
    if index is None:
        return ledger.read_last(MAX_RECORDS)
    known = [*index.records, *index.failures]
    later = ledger.read_later([record.attempt for record in known])
    return sorted([*known, *later], key=lambda record: record.attempt)


def published_records(store: ObjectStore, feed: str) -> list[LedgerRecord]:
    """The newest records of publishes and rollbacks, newest last."""
    return [r for r in ended_attempts(store, feed) if r.outcome is Outcome.PUBLISHED]
