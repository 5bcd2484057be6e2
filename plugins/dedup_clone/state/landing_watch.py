"""Landing, looked at again and again: old markers are asked for now and then only, for each costs a request."""

from __future__ import annotations

import logging

from dedup_clone.state.arrivals import Arrivals, Landing, Marker
from dedup_clone.state.misnamed import MisnamedMarkers

NEWEST_SNAPSHOTS = 20
log = logging.getLogger("dedup_clone")


class LandingWatch:
    """`looks_until_whole`: every so many looks all markers are asked for.

    A marker in a new folder, or of one of the newest snapshots, is seen at once; an old snapshot's that is written
    again by the next whole look.
    """

    def __init__(
        self, landing: Landing, arrivals: Arrivals, misnamed: MisnamedMarkers, *, looks_until_whole: int
    ) -> None:
        self._landing = landing
        self._arrivals = arrivals
        self._misnamed = misnamed
        self._looks_until_whole = looks_until_whole
        self._looks = 0
        self._old: frozenset[str] = frozenset()

    def look(self) -> list[Marker]:
        """Markers that are not registered. A misnamed one is logged once."""
        whole = self._looks % self._looks_until_whole == 0
        self._looks += 1
        look = self._landing.look(skip=() if whole else self._old)
        if whole:
            self._old = frozenset(marker.name for marker in look.markers[:-NEWEST_SNAPSHOTS])
        for marker in self._misnamed.tell(look.misnamed):
            log.warning("feed=%s %s", self._arrivals.feed, marker.text)
        return self._arrivals.unregistered(look.markers)
