"""The ledger: one record per publish attempt, what it took and what it would have cost otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


class Outcome(StrEnum):
    PUBLISHED = "published"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True)
class Cost:
    """USD of this publish's queries, and what one MERGE and one QUALIFY over the same bytes would have cost."""

    query_bytes_billed: int
    table_bytes_read: int
    slot_ms: int
    query_usd: float
    merge_usd: float
    qualify_usd: float


@dataclass(frozen=True)
class LedgerRecord:
    """`deliveries`: those applied whole; none for a rollback, a replay of some dates or a bootstrap: no `lag_s` either.

    A bootstrap's `arrived_at` is when it began, its `snapshot_id` the highest update id (0 if it ended before that was
    known).

    `lag_s`: seconds from the newest applied delivery's arrival to the swap's commit. `phases`: seconds each.

    `shares`: new, missing and changed rows of the dates that the parent had, by check name (`new_share` …), 0 to 1.
    """

    feed: str
    outcome: Outcome
    reason: str
    snapshot_id: int
    deliveries: tuple[Delivery, ...]
    generation: int
    parent: int | None
    attempt: str
    dag_id: str
    run_id: str
    restores: int | None
    engine: Engine
    plans: tuple[str, ...]
    arrived_at: datetime
    swapped_at: datetime | None
    lag_s: float | None
    rows: int
    new_rows: int
    changed_rows: int | None
    kept_rows: int
    dropped_rows: int
    ties: int
    bytes_read: int
    bytes_written: int
    shares: dict[str, float]
    phases: dict[str, float]
    cost: Cost | None

    @property
    def is_bootstrap(self) -> bool:
        """Whether an existing table was taken over: the one first generation that no delivery made."""
        return self.parent is None and self.restores is None and not self.deliveries


class Ledger:
    """Records below `ledger/`, named by attempt and so in order of generation."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._layout = FeedLayout(feed)

    def write(self, record: LedgerRecord) -> None:
        """Write once: a repeated commit keeps the first record."""
        self._store.create(self._layout.ledger_record(record.attempt), to_json(record))

    def read(self, attempt: str) -> LedgerRecord | None:
        """The record of one attempt, None when it has none yet."""
        return self._store.read_record(LedgerRecord, self._layout.ledger_record(attempt))

    def read_last(self, count: int) -> list[LedgerRecord]:
        """The newest `count` records, newest last."""
        names = sorted(info.name for info in self._store.objects(self._layout.ledger))[-count:]
        return self._store.read_records(LedgerRecord, names)
