"""Stores the records of arrivals, refusals and held deliveries, and polls landing for new deliveries."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.delivery import Arrival, Backlog, Delivery, split_backlog
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import to_json
from dedup_clone.state.landing import InvalidMarker, Landing, Marker
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore, in_parallel

NEWEST_SNAPSHOTS = 3  # every poll requests the markers of this many of the newest snapshots
log = logging.getLogger("dedup_clone")


@dataclass(frozen=True)
class Refusal:
    """A delivery that was refused, and why. `is_discarded`: a person discarded it while it was held."""

    delivery: Delivery
    reason: str
    refused_at: datetime
    is_discarded: bool = False


@dataclass(frozen=True)
class DeliveryLists:
    """A feed's deliveries that have records: all `registered` ones, and which of them are `refused` or `held`.

    Each is in ascending precedence, with the time of its record. A check on its data stopped a held delivery, and no
    publish included it since.
    """

    registered: dict[Delivery, datetime]
    refused: dict[Delivery, datetime]
    held: dict[Delivery, datetime]

    def backlog(self, parent: Manifest | None) -> Backlog:
        """The deliveries that `parent` neither includes nor excludes, without refused ones.

        `parent`: None before the first publish. Superseded and held deliveries are listed apart. A held delivery
        supersedes earlier ones of its snapshot id, as a waiting one does.
        """
        included, excluded = (parent.deliveries, parent.excluded) if parent else ((), ())
        return split_backlog(self.registered.keys() - self.refused.keys(), included, excluded, self.held)


class Arrivals:
    """Reads and writes the records of one feed's arrivals, refusals and held deliveries."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._layout = FeedLayout(feed)
        self.feed = feed

    def unregistered(self, markers: Iterable[Marker]) -> list[Marker]:
        """Those of `markers` whose deliveries have no arrival record."""
        registered = set(self.deliveries())
        return [m for m in markers if m.delivery not in registered]

    def register(self, landing: Landing, marker: Marker) -> None:
        """Write the delivery's arrival record. If there is one already, it stays as it is."""
        self._store.create(self._layout.arrival(marker.delivery), to_json(landing.inventory(self.feed, marker)))

    def lists(self) -> DeliveryLists:
        """All deliveries that have records."""
        folders = (self._layout.arrivals, self._layout.refused, self._layout.held)
        return DeliveryLists(*in_parallel(self._deliveries_below, folders))

    def backlog(self, parent: Manifest | None) -> Backlog:
        """The deliveries that wait or are held while `parent` is the live generation (DeliveryLists.backlog)."""
        return self.lists().backlog(parent)

    def deliveries(self) -> list[Delivery]:
        """All registered deliveries, in ascending precedence."""
        return [*self._deliveries_below(self._layout.arrivals)]

    def end_hold(self, included: Iterable[Delivery]) -> None:
        """Delete the records that hold deliveries which a generation includes now."""
        for delivery in set(included).intersection(self._deliveries_below(self._layout.held)):
            self._store.delete_prefix(self._layout.held_delivery(delivery))

    def read(self, delivery: Delivery) -> Arrival:
        """The arrival record. Raises ContractViolation when the delivery is not registered."""
        arrival = self._store.read_record(Arrival, self._layout.arrival(delivery))
        if arrival is None:
            registered = ", ".join(d.name for d in self.deliveries()) or "none"
            raise ContractViolation(
                f"Delivery [{delivery.name}] of [{self.feed}] is not registered; registered are: {registered}. "
                f"Land its marker, or name a registered delivery."
            )
        return arrival

    def refuse(self, refusal: Refusal) -> None:
        """Record that a delivery was refused. If there is a refusal already, it stays as it is."""
        self._store.create(self._layout.refusal(refusal.delivery), to_json(refusal))

    def _deliveries_below(self, prefix: str) -> dict[Delivery, datetime]:
        """The deliveries with a record in this folder, and when it was written. Other objects are ignored."""
        found = {}
        for info in self._store.objects(prefix):
            name, is_record = info.name.removeprefix(prefix), info.name.endswith(".json")
            if is_record and (delivery := Delivery.parse(name.removesuffix(".json"))):
                found[delivery] = info.created_at
        return dict(sorted(found.items()))


class LandingWatch:
    """Polls landing for new deliveries, with few requests: one environment may poll for hundreds of feeds.

    Each marker costs a request, so most polls skip the markers of old snapshots that the last full listing found. The
    first poll, and then every `polls_per_full_listing`-th, requests all markers. So a marker in a new folder, or of one
    of the newest snapshots, is found by the next poll. The marker of an old snapshot, if it is written again, is found
    by the next full listing. Arrival records are listed only if a poll found a marker whose delivery was not registered
    when they were last listed.
    """

    def __init__(self, landing: Landing, arrivals: Arrivals, *, polls_per_full_listing: int) -> None:
        self._landing = landing
        self._arrivals = arrivals
        self._polls_per_full_listing = polls_per_full_listing
        self._polls = 0
        self._old_markers: frozenset[str] = frozenset()
        self._registered: frozenset[Delivery] = frozenset()
        self._invalid: list[InvalidMarker] = []

    def new_markers(self) -> list[Marker]:
        """Markers whose deliveries are not registered. Logs each invalid marker when it is first found."""
        is_full_listing = self._polls % self._polls_per_full_listing == 0
        self._polls += 1
        listing = self._landing.list_markers(skip=() if is_full_listing else self._old_markers)
        if is_full_listing:
            self._old_markers = frozenset(marker.name for marker in listing.markers[:-NEWEST_SNAPSHOTS])
        for marker in listing.invalid:
            if marker not in self._invalid:
                log.warning("feed=%s %s", self._arrivals.feed, marker.text)
        self._invalid = listing.invalid
        if self._registered.issuperset(marker.delivery for marker in listing.markers):
            return []
        self._registered = frozenset(self._arrivals.deliveries())
        return [marker for marker in listing.markers if marker.delivery not in self._registered]
