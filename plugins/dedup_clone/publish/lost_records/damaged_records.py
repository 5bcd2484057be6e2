"""Finds damaged records that would stop a publish, and that the feed can go on without."""

from __future__ import annotations

from dedup_clone.contract.delivery import Arrival
from dedup_clone.publish.lost_records.record_change import RecordChange
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.layout import delivery_of, generation_of
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.state.staging import Staging
from dedup_clone.state.store import in_parallel


def deletions_of_damaged_records(services: Services) -> list[RecordChange]:
    """A planned deletion of each damaged record among STAGING, arrivals, refusals and ledger records."""
    layout = services.layout
    records: list[tuple[type, str, str]] = [
        (Staging, layout.staging, "the next publish loads the whole table"),
        *_of_deliveries(
            services, Arrival, layout.arrivals, "FEED_watch writes it anew if landing still has the marker"
        ),
        *_of_deliveries(services, Refusal, layout.refused, "the delivery is validated again"),
        *(
            (LedgerRecord, info.name, "the table dedup_clone_ledger has a copy")
            for info in services.store.objects(layout.ledger)
            if generation_of(info.name) is not None
        ),
    ]
    found = in_parallel(lambda record: _deletion(services, *record), records)
    return [change for change in found if change is not None]


def _of_deliveries(services: Services, kind: type, folder: str, consequence: str) -> list[tuple[type, str, str]]:
    names = [info.name for info in services.store.objects(folder)]
    return [(kind, name, consequence) for name in names if delivery_of(name, folder) is not None]


def _deletion(services: Services, kind: type, name: str, consequence: str) -> RecordChange | None:
    stored = services.store.read(name)
    if stored is None or services.store.parse_if_sound(kind, name, stored) is not None:
        return None
    return RecordChange(name, None, stored.object_generation, f"damaged; {consequence}")
