"""Lists the feed's deliveries for index.json: when each arrived, what it holds, and what became of it."""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.landed_objects import objects_by_date
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.date_ranges import date_ranges
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import find_backlog
from dedup_clone.state.index import DeliveryState, Index, IndexArrival

ARRIVALS_LISTED = 200  # the newest; deliveries that wait or are held are listed in any case
MAX_DATES_TEXT = 200_000  # characters of `dates` of all listed deliveries: 80 of weekdays in two years


def list_arrivals(services: Services, live: Manifest | None, stored: Index | None) -> tuple[IndexArrival, ...]:
    """The newest deliveries and all that wait or are held, in the order of their arrival.

    `live`: the live generation's manifest, if any. `stored`: the former index, if any, which saves reading records.
    """
    backlog = find_backlog(services, live)
    refused = set(services.arrivals.refused())
    former = {a.delivery: a for a in stored.arrivals} if stored else {}
    published = set(live.deliveries) if live else set()
    excluded = set(live.excluded) if live else set()

    def state_of(delivery: Delivery) -> DeliveryState:
        if delivery in backlog.apply:
            return DeliveryState.WAITING
        if delivery in backlog.held:
            return DeliveryState.HELD
        if delivery in excluded:
            return DeliveryState.EXCLUDED
        if delivery in published:
            return DeliveryState.PUBLISHED
        return DeliveryState.REFUSED if delivery in refused else DeliveryState.SUPERSEDED

    listed = sorted({*services.arrivals.deliveries()[-ARRIVALS_LISTED:], *backlog.apply, *backlog.held})
    arrivals = [_arrival(services, former.get(d), d, state_of(d)) for d in listed]
    return _limit_dates(sorted(arrivals, key=lambda a: (a.arrived_at, a.delivery)))


def _limit_dates(arrivals: list[IndexArrival]) -> tuple[IndexArrival, ...]:
    """The arrivals, without the dates of the older ones if all dates have more than MAX_DATES_TEXT characters."""
    limited, left = [], MAX_DATES_TEXT
    for arrival in reversed(arrivals):
        left -= len(arrival.dates or "")
        limited.append(replace(arrival, dates=None) if left < 0 and arrival.dates else arrival)
    return tuple(reversed(limited))


def _arrival(services: Services, former: IndexArrival | None, delivery: Delivery, state: DeliveryState) -> IndexArrival:
    """The entry of a delivery. `former`: its entry in the stored index, if any."""
    entry = former
    if entry is None:
        record = services.arrivals.read(delivery)
        size = sum(item.size for item in record.objects)
        dates = ", ".join(date_ranges(objects_by_date(record, services.feed.table.partition_column)))
        entry = IndexArrival(delivery, record.arrived_at, len(record.objects), size, state, "", None, dates)
    if state is not DeliveryState.REFUSED or entry.refused_at is not None:
        return replace(entry, state=state)
    refusal = services.arrivals.refusal(delivery)
    if refusal is None:
        return replace(entry, state=state)
    return replace(entry, state=state, reason=refusal.reason, refused_at=refusal.refused_at)
