"""The watchdog's alert about a feed that it has not been able to check for a while."""

from __future__ import annotations

from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import read_verdict
from dedup_clone.orchestration.watchdog.notifiers import report_incidents
from dedup_clone.publish.services import utc_now
from dedup_clone.settings.alert_settings import AlertSettings
from dedup_clone.state.store import ObjectStore


def report_unchecked_feed(feed: str, error: Exception, store: ObjectStore, settings: AlertSettings) -> None:
    """Report the incident if the last verdict is stale, or if there is none. The next check that succeeds ends it.

    One failed check after a good one is not reported, because the next check follows soon. Raises AlertNotSent.
    """
    now, last = utc_now(), read_verdict(store, feed)
    if last is not None and not last.is_stale(now):
        return
    found = Incident(
        IncidentKind.FEED_NOT_CHECKED,
        Severity.ALERT,
        since=now if last is None else last.checked_at,
        what=f"the watchdog cannot check the feed: {type(error).__name__}: {error}",
        readers_see="unknown" if last is None else f"unknown; at the last check: {last.readers_see}",
        next_step="correct what the error names; the next check then finds whatever else is wrong.",
        dag_id="freshness_watchdog",
    )
    unchecked = set(IncidentKind) - {IncidentKind.FEED_NOT_CHECKED}
    report_incidents(store, feed, [found], now, settings, readers_see=found.readers_see, unchecked=unchecked)
