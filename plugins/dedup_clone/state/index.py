"""index.json: what the page reads, in one object. All of it follows from other records and can be rebuilt from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.ledger import Ledger, LedgerRecord, Outcome
from dedup_clone.state.store import ObjectStore, StoredText

RECORDS_KEPT = 1000
FAILURES_KEPT = 50


@dataclass(frozen=True)
class IndexDate:
    """One partition of the live generation."""

    date: date
    rows: int
    survivors: int


class Fate(StrEnum):
    """What became of a delivery. WAITING: registered, not refused, and not yet in the live generation."""

    WAITING = "waiting"
    PUBLISHED = "published"
    REFUSED = "refused"
    EXCLUDED = "excluded"
    SUPERSEDED = "superseded"


@dataclass(frozen=True)
class IndexArrival:
    """One delivery that was noticed. `bytes` of its files; `reason` and `refused_at` only when it was refused."""

    delivery: Delivery
    arrived_at: datetime
    files: int
    bytes: int
    fate: Fate
    reason: str
    refused_at: datetime | None


@dataclass(frozen=True)
class IndexVerdict:
    """One check's verdict with its evidence, before or after (`phase`) the swap."""

    phase: str
    check: str
    level: str
    found: str
    expected: str
    next_step: str


@dataclass(frozen=True)
class IndexChecks:
    """The verdicts of one attempt."""

    attempt: str
    generation: int
    snapshot_id: int
    verdicts: tuple[IndexVerdict, ...]


@dataclass(frozen=True)
class IndexGeneration:
    """A committed generation. Staging held exactly it at `checked_at`; `has_files`: its data folder is kept."""

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
    """How far back BigQuery shows staging: `hours`, and never before the table was made."""

    hours: float
    staging_created_at: datetime


@dataclass(frozen=True)
class IndexAudit:
    """Partitions that do not hold what the files do, and the last one that was compared with them."""

    unequal_dates: tuple[date, ...]
    date: date
    generation: int
    outcome: str
    audited_at: datetime


@dataclass(frozen=True)
class Index:
    """One feed: its promise, the live generation's partitions, and the newest of everything else, newest last.

    `generation` is None before the first publish. `records` are publishes and rollbacks, `failures` the attempts that
    changed nothing.
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


@dataclass(frozen=True)
class KnownIndex:
    """The index as stored (None: absent, or written by another version), and its object generation (0: absent)."""

    index: Index | None
    object_generation: int


class IndexFile:
    """Reads and changes index.json under the object generation that was read."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._name = FeedLayout(feed).index

    def read(self) -> KnownIndex:
        stored = self._store.read(self._name)
        return KnownIndex(None, 0) if stored is None else KnownIndex(self._parse(stored), stored.generation)

    def write(self, index: Index, *, expected_generation: int) -> None:
        """Raises LostRace when somebody else wrote it meanwhile: derive it again from what is there now."""
        self._store.replace(self._name, to_json(index), expected_generation=expected_generation)

    def _parse(self, stored: StoredText) -> Index | None:
        try:
            return from_json(Index, stored.text, where=self._store.uri(self._name))
        except ContractViolation:
            return None  # written by another version: everything in it is kept elsewhere too


def published_records(store: ObjectStore, feed: str) -> list[LedgerRecord]:
    """The newest records of publishes and rollbacks, newest last, in one read where there is an index."""
    known = IndexFile(store, feed).read().index
    if known is not None:
        return list(known.records)
    return [r for r in Ledger(store, feed).read_last(RECORDS_KEPT) if r.outcome is Outcome.PUBLISHED]
