"""index.json: what the page reads, in one object. It follows from manifest and ledger and can be rebuilt from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.ledger import Ledger, LedgerRecord, Outcome
from dedup_clone.state.store import ObjectStore

RECORDS_KEPT = 1000


@dataclass(frozen=True)
class IndexDate:
    """One partition of the live generation."""

    date: date
    rows: int
    survivors: int


@dataclass(frozen=True)
class Index:
    """The live generation's partitions and the newest records of the ledger, newest last."""

    feed: str
    generation: int
    retention_days: int
    dates: tuple[IndexDate, ...]
    records: tuple[LedgerRecord, ...]


def append_to_index(store: ObjectStore, feed: str, record: LedgerRecord, manifest: Manifest) -> None:
    """Add one publish. An index that is absent or of another version is rebuilt from the ledger."""
    name = FeedLayout(feed).index
    records = [r for r in _records(store, feed, name) if r.attempt != record.attempt]
    index = Index(
        feed=feed,
        generation=manifest.generation,
        retention_days=manifest.table.retention_days,
        dates=tuple(IndexDate(e.date, e.rows, e.survivors) for e in manifest.dates),
        records=tuple([*records, record][-RECORDS_KEPT:]),
    )
    store.put(name, to_json(index))


def published_records(store: ObjectStore, feed: str) -> list[LedgerRecord]:
    """The newest records of publishes and rollbacks, newest last, in one read."""
    return _records(store, feed, FeedLayout(feed).index)


def _records(store: ObjectStore, feed: str, name: str) -> list[LedgerRecord]:
    stored = store.read(name)
    if stored is not None:
        try:
            return list(from_json(Index, stored.text, where=store.uri(name)).records)
        except ContractViolation:
            pass  # written by another version: the ledger has it all
    return [r for r in Ledger(store, feed).read_last(RECORDS_KEPT) if r.outcome is Outcome.PUBLISHED]
