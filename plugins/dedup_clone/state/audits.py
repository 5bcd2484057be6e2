"""AUDITS: what the content audit found of each partition, and what it cost today."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore

ROUNDS = 5


@dataclass(frozen=True)
class PartitionFingerprint:
    """Of the rows of one partition, whatever their order: their number, and their hashes' exclusive or and sum."""

    rows: int
    exclusive_or: int
    total: int


class AuditOutcome(StrEnum):
    """OVER_BUDGET: the partition alone is larger than a day's budget, so it was not compared."""

    EQUAL = "equal"
    UNEQUAL = "unequal"
    OVER_BUDGET = "over_budget"


@dataclass(frozen=True)
class AuditRecord:
    """The last audit of one partition: what the files of `generation` hold, and what target held (None: not asked).

    `bytes_billed` is what BigQuery billed for reading target, or would have.
    """

    date: date
    generation: int
    outcome: AuditOutcome
    audited_at: datetime
    published: PartitionFingerprint | None
    found: PartitionFingerprint | None
    bytes_billed: int


@dataclass(frozen=True)
class Audits:
    """`jobs` are the bytes that each BigQuery job of the UTC day `day` was billed for."""

    day: date
    jobs: dict[str, int]
    records: tuple[AuditRecord, ...]

    @property
    def last(self) -> AuditRecord | None:
        """The newest audit that compared something."""
        compared = [r for r in self.records if r.outcome is not AuditOutcome.OVER_BUDGET]
        return max(compared, key=lambda r: r.audited_at, default=None)

    @property
    def unequal(self) -> tuple[AuditRecord, ...]:
        return tuple(r for r in self.records if r.outcome is AuditOutcome.UNEQUAL)

    def billed_on(self, day: date) -> int:
        """Bytes billed on that day, as far as it is the last one with an audit."""
        return sum(self.jobs.values()) if day == self.day else 0

    def with_job(self, day: date, job_id: str, bytes_billed: int) -> Audits:
        """Noting a job twice counts it once."""
        jobs = self.jobs if day == self.day else {}
        return Audits(day, {**jobs, job_id: bytes_billed}, self.records)

    def with_records(self, records: tuple[AuditRecord, ...], kept: set[date]) -> Audits:
        """With new records in place of older ones; those of dates that are not in `kept` are dropped.

        A partition that was unequal stays so until it has been compared again.
        """
        unequal = {record.date for record in self.unequal}
        news = [r for r in records if r.outcome is not AuditOutcome.OVER_BUDGET or r.date not in unequal]
        by_date = {record.date: record for record in (*self.records, *news) if record.date in kept}
        return Audits(self.day, self.jobs, tuple(by_date[day] for day in sorted(by_date)))


class AuditsFile:
    """Reads and changes AUDITS under the object generation that was read."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._name = FeedLayout(feed).audits

    def read(self) -> Audits:
        """Empty before the first audit."""
        return self._read()[0]

    def change(self, change: Callable[[Audits], Audits]) -> None:
        """Raises LostRace when others wrote it five times meanwhile."""
        for round_number in range(ROUNDS):
            audits, generation = self._read()
            try:
                self._store.replace(self._name, to_json(change(audits)), expected_generation=generation)
                return
            except LostRace:
                if round_number == ROUNDS - 1:
                    raise

    def _read(self) -> tuple[Audits, int]:
        stored = self._store.read(self._name)
        if stored is None:
            return Audits(date.min, {}, ()), 0
        return from_json(Audits, stored.text, where=self._store.uri(self._name)), stored.generation
