"""Classifies each generation by what made it: a publish of new deliveries, a replay, rollback or other kind of run."""

from __future__ import annotations

from enum import StrEnum

from dedup_clone.contract.delivery import Delivery
from dedup_clone.state.index import Index
from dedup_clone.state.ledger import LedgerRecord


class PublishKind(StrEnum):
    """What made a generation. The freshness SLA applies to PUBLISH only."""

    PUBLISH = "publish"  # at least one delivery became live for the first time
    REPLAY = "replay"  # all its deliveries had been live before, or its record names none (a replay of some dates)
    ROLLBACK = "rollback"
    BOOTSTRAP = "bootstrap"
    ERASURE = "erasure"
    REBUILD = "rebuild"


def publish_kinds(index: Index) -> dict[int, PublishKind]:
    """The kind of each generation in the page's index, by the generation's number."""
    kinds: dict[int, PublishKind] = {}
    published: set[Delivery] = set()
    for record in index.records:
        kinds[record.generation] = _kind(record, published)
        published.update(record.deliveries)
    return kinds


def _kind(record: LedgerRecord, published: set[Delivery]) -> PublishKind:
    """The kind of one generation. `published`: the deliveries of all earlier generations in the index."""
    if record.restores is not None:
        return PublishKind.ROLLBACK
    if record.is_bootstrap:
        return PublishKind.BOOTSTRAP
    if record.is_erasure:
        return PublishKind.ERASURE
    if record.rebuilt:
        return PublishKind.REBUILD
    return PublishKind.REPLAY if published.issuperset(record.deliveries) else PublishKind.PUBLISH
