"""What a record of the ledger was: a delivery's first publish, a replay of published ones, a rollback, a bootstrap."""

from __future__ import annotations

from enum import StrEnum

from dedup_clone.contract.delivery import Delivery
from dedup_clone.state.index import Index
from dedup_clone.state.ledger import LedgerRecord


class Kind(StrEnum):
    """Only a PUBLISH can break the promise: a REPLAY is of what readers had seen, or of some dates."""

    PUBLISH = "publish"
    REPLAY = "replay"
    ROLLBACK = "rollback"
    BOOTSTRAP = "bootstrap"


def kinds_of(index: Index) -> dict[int, Kind]:
    """The kind of each record, by its generation; judged by the records that the index has."""
    kinds: dict[int, Kind] = {}
    seen: set[Delivery] = set()
    for record in index.records:
        kinds[record.generation] = _kind(record, seen)
        seen.update(record.deliveries)
    return kinds


def _kind(record: LedgerRecord, seen: set[Delivery]) -> Kind:
    if record.restores is not None:
        return Kind.ROLLBACK
    if record.is_bootstrap:
        return Kind.BOOTSTRAP
    return Kind.REPLAY if seen.issuperset(record.deliveries) else Kind.PUBLISH
