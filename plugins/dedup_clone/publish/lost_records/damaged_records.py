"""Finds damaged records that would stop a publish, and that the feed can go on without."""

from __future__ import annotations

from dedup_clone.contract.delivery import Arrival
from dedup_clone.publish.lost_records.record_change import RecordChange
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.state.staging import Staging
from dedup_clone.state.store import in_parallel


def deletions_of_damaged_records(services: Services) -> list[RecordChange]:
    """A planned deletion of each damaged record among STAGING, arrivals, refusals and ledger records."""
    layout = services.layout
    records: list[tuple[type, str, str]] = [
        (Staging, layout.staging, "the next publish loads the whole table"),
        *_records_below(
            services, Arrival, layout.arrivals, "FEED_watch writes it anew if landing still has the marker"
        ),
        *_records_below(services, Refusal, layout.refused, "the delivery is validated again"),
        *_records_below(services, LedgerRecord, layout.ledger, "the table dedup_clone_ledger has a copy"),
    ]
    found = in_parallel(lambda record: _deletion(services, *record), records)
    return [change for change in found if change is not None]


def _records_below(services: Services, kind: type, prefix: str, consequence: str) -> list[tuple[type, str, str]]:
    return [(kind, info.name, consequence) for info in services.store.objects(prefix)]


def _deletion(services: Services, kind: type, name: str, consequence: str) -> RecordChange | None:
    stored = services.store.read(name)
    if stored is None or services.store.parse_if_sound(kind, name, stored) is not None:
        return None
    return RecordChange(name, None, stored.object_generation, f"damaged; {consequence}")
