"""One look of the watchdog at one feed: facts, judgements, incident records, messages, metrics."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from dedup_clone.contract.errors import AlertNotSent, ConfigurationError
from dedup_clone.freshness.facts import Facts
from dedup_clone.freshness.gather import gather
from dedup_clone.freshness.incident_files import IncidentFiles, IncidentRecord
from dedup_clone.freshness.judge import judge
from dedup_clone.freshness.measures import measures
from dedup_clone.freshness.words import readers_see
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.dag_activity import dag_activity
from dedup_clone.orchestration.folders import Folders
from dedup_clone.orchestration.notifiers import AlertSender, alert_of
from dedup_clone.publish.services import Services
from dedup_clone.settings.alerts import AlertSettings
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.feed import read_feed


def feed_setups(folders: Folders) -> dict[str, FeedSetup | ConfigurationError]:
    """Every feed by name; a file that is not valid gives its error, and hides no other feed."""
    setups: dict[str, FeedSetup | ConfigurationError] = {}
    for path in sorted(folders.feeds.glob("*.yaml")):
        try:
            setups[path.stem] = FeedSetup(read_feed(path), read_deployment(folders.profiles), folders)
        except ConfigurationError as error:
            setups[path.stem] = error
    return setups


def look_interval(profiles: Path) -> timedelta:
    """How often the watchdog looks; the default while the profile is not valid, which each feed's task then says."""
    try:
        alerts = read_deployment(profiles).alerts
    except ConfigurationError:
        alerts = AlertSettings()
    return timedelta(minutes=alerts.look_every_minutes)


def look_at_feed(setup: FeedSetup) -> list[str]:
    """Returns the names of the feed's incidents. Raises AlertNotSent when a notifier failed; it is tried again."""
    services = connect(setup)
    now = services.now()
    facts = gather(
        services,
        watch=dag_activity(setup.watch_dag_id),
        publish=dag_activity(setup.publish_dag_id),
        look_again=look_interval(setup.folders.profiles),
    )
    sender = AlertSender(setup.deployment.alerts)
    names = settle(services, now, facts, sender, setup.deployment.alerts)
    _emit(now, facts, len(names))
    if sender.failed:
        failures = "; ".join(f"[{name}] {why}" for name, why in sender.failed.items())
        raise AlertNotSent(
            f"Notifier(s) failed: {failures}. Their alerts are kept and sent by a later look: check their connections."
        )
    return names


def settle(services: Services, now: datetime, facts: Facts, sender: AlertSender, settings: AlertSettings) -> list[str]:
    """Judge, make the incident records follow, and tell what is new. Returns the names of what was wrong at `now`."""
    incidents = judge(now, facts)

    def tell(record: IncidentRecord, names: tuple[str, ...]) -> tuple[str, ...]:
        alert = alert_of(record, feed=facts.feed, readers_see=readers_see(facts, now), settings=settings)
        return sender.send(alert, names)

    IncidentFiles(services.store, facts.feed, sender.names, tell).settle(incidents, now)
    names = [incident.name for incident in incidents]
    services.fact(f"watchdog: {', '.join(names) or 'nothing is wrong'}; readers see {readers_see(facts, now)}")
    return names


def _emit(now: datetime, facts: Facts, incidents_open: int) -> None:
    """One gauge each. Plain StatsD drops tags, so the feed is in the name too."""
    from airflow.sdk.observability import stats

    for name, value in measures(now, facts, incidents_open).items():
        stats.gauge(f"dedup_clone.{name}.{facts.feed}", value, tags={"feed": facts.feed})
