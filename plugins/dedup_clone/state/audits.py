"""AUDITS: the object with each partition's last content audit, and the bytes billed on the last day with an audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime

from dedup_clone.contract.manifest import Manifest
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


@dataclass(frozen=True)
class PartitionComparison:
    """A partition compared with the rows that it should have; each row counts as often as it occurs.

    `missing`: the expected rows that the partition lacks. `surplus`: its rows that are not expected.
    """

    rows: int
    expected_rows: int
    missing: int
    surplus: int

    @property
    def is_equal(self) -> bool:
        return not self.missing and not self.surplus

    @property
    def difference(self) -> str:
        """The comparison as text."""
        return (
            f"{self.rows} rows, expected {self.expected_rows}; {self.missing} expected rows are missing, "
            f"{self.surplus} rows are not expected"
        )


@dataclass(frozen=True)
class AuditRecord:
    """The last audit of one partition: its `comparison` with the files of `generation`."""

    date: date
    generation: int
    audited_at: datetime
    comparison: PartitionComparison


@dataclass(frozen=True)
class Audits:
    """The last record of each audited partition, in the order of dates.

    `jobs`: the bytes billed on `day`, the last UTC day with an audit, by BigQuery job id.
    """

    day: date
    jobs: dict[str, int]
    records: tuple[AuditRecord, ...]

    @property
    def last(self) -> AuditRecord | None:
        """The newest record; None if there is none."""
        return max(self.records, key=lambda r: r.audited_at, default=None)

    @property
    def unequal(self) -> tuple[AuditRecord, ...]:
        """The records of partitions that differ from the generation's files."""
        return tuple(r for r in self.records if not r.comparison.is_equal)

    def of_table(self, live: Manifest | None) -> Audits:
        """A copy with only the records of dates on which the live generation has rows; without one, with none."""
        dates = {entry.date for entry in live.dates_with_rows} if live else set()
        return replace(self, records=tuple(record for record in self.records if record.date in dates))

    def billed_on(self, day: date) -> int:
        """Bytes billed on `day`; 0 unless `day` is the last day with an audit."""
        return sum(self.jobs.values()) if day == self.day else 0

    def with_job(self, day: date, job_id: str, bytes_billed: int) -> Audits:
        """A copy that also has the bytes billed for a job. If a job is recorded again, its bytes are replaced."""
        jobs = self.jobs if day == self.day else {}
        return Audits(day, {**jobs, job_id: bytes_billed}, self.records)

    def with_records(self, records: tuple[AuditRecord, ...], *, retained: set[date]) -> Audits:
        """A copy in which `records` replace older records of the same dates. Only dates in `retained` stay."""
        by_date = {record.date: record for record in (*self.records, *records) if record.date in retained}
        return Audits(self.day, self.jobs, tuple(by_date[day] for day in sorted(by_date)))


_NONE = Audits(date.min, {}, ())


def read_audits(store: ObjectStore, feed: str) -> Audits:
    """The audits; empty before the first one."""
    return store.read_record(Audits, FeedLayout(feed).audits) or _NONE


def change_audits(store: ObjectStore, feed: str, change: Callable[[Audits], Audits]) -> None:
    """Replace the audits by the result of `change`, as `ObjectStore.change_record` does."""
    store.change_record(Audits, FeedLayout(feed).audits, lambda found: change(found or _NONE))
