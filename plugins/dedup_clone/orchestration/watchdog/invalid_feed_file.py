"""The watchdog's check of a feed without a valid file: one alert, and a verdict that says what readers see."""

from __future__ import annotations

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.freshness.evaluation import keep_first_seen
from dedup_clone.freshness.feed_state import describe_live
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.incident_records import read_incident_records
from dedup_clone.freshness.verdict import (
    FreshnessStatus,
    FreshnessVerdict,
    read_verdict,
    write_verdict,
)
from dedup_clone.orchestration.task_runtime import environment_name
from dedup_clone.orchestration.watchdog.notifiers import report_incidents
from dedup_clone.publish.services import utc_now
from dedup_clone.settings.alert_settings import AlertSettings
from dedup_clone.state.current import CurrentFile
from dedup_clone.state.index import published_records
from dedup_clone.state.store import ObjectStore


def report_invalid_feed_file(
    feed: str, error: ConfigurationError, store: ObjectStore, settings: AlertSettings, check_interval_s: float
) -> list[str]:
    """Open the incident, store the verdict, and return the names of its incidents.

    The first check after the file was corrected ends the incident. The verdict also has the feed's other open
    incidents, which nothing looks for meanwhile. Does nothing if the feed is retired, or if another environment
    publishes it. Raises AlertNotSent when a notifier failed; the next check sends the alert again.
    """
    now, current, previous = utc_now(), CurrentFile(store, feed).read(), read_verdict(store, feed)
    if current.retired or current.refusal(environment_name()):
        return []
    live = next((r for r in reversed(published_records(store, feed)) if r.generation == current.generation), None)
    readers_see = describe_live(live, current.generation, now)
    at_work = f" Run [{current.intent.run_id}] has the lease, and cannot go on." if current.intent else ""
    found = Incident(
        IncidentKind.FEED_FILE_INVALID,
        Severity.ALERT,
        since=now,
        what=f"the file of feed [{feed}] cannot be read: no delivery is registered and nothing is published.{at_work} "
        f"{error}",
        readers_see=readers_see,
        next_step="correct the file and deploy it; deliveries that have landed meanwhile are found.",
    )
    reported = read_incident_records(store, feed).open
    (incident,) = keep_first_seen([found], now, reported)
    others = (other for other in reported if other.name != incident.name)
    verdict = FreshnessVerdict(
        feed=feed,
        status=FreshnessStatus.STOPPED,
        readers_see=readers_see,
        incidents=(incident, *others),
        checked_at=now,
        check_interval_s=check_interval_s,
        next_expected_at=None,
        waiting=previous.waiting if previous else 0,
        runbook=settings.runbook,
    )
    write_verdict(store, verdict)
    unchecked = set(IncidentKind) - {IncidentKind.FEED_FILE_INVALID}
    report_incidents(store, feed, [incident], now, settings, readers_see=readers_see, unchecked=unchecked)
    return [incident.name for incident in verdict.incidents]
