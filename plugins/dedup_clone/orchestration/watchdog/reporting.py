"""Takes the rows that runs of all feeds left in state, and loads them into the ledger table and FEED_changes."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from dedup_clone.freshness.incident import NO_FEED, Incident, IncidentKind, Severity, format_time, read_incident_records
from dedup_clone.orchestration.setup import FeedSetup, open_feed_services, read_feed_setup
from dedup_clone.orchestration.watchdog.notifiers import report_incidents
from dedup_clone.publish.changes_table import try_load_changes
from dedup_clone.publish.reporting import LEDGER_TABLE, load_ledger_rows
from dedup_clone.publish.services import Services
from dedup_clone.settings.deployment import AlertSettings
from dedup_clone.state.ledger import CHANGES, ReportingBacklog
from dedup_clone.state.store import ObjectStore

log = logging.getLogger(__name__)
LATE_AFTER = timedelta(hours=6)


def load_waiting_rows(setup: FeedSetup) -> None:
    """Load the waiting rows of all feeds, and report tables that have lacked rows for long. `setup`: that of any feed.

    Raises what `load_ledger_rows` raises, and AlertNotSent if a notifier failed.
    An error in the load of one feed's changes is only logged, and the changes of the other feeds are loaded.
    """
    services = open_feed_services(setup)
    feeds = sorted({rows.feed for rows in ReportingBacklog(services.store, CHANGES).waiting()})
    try:
        load_ledger_rows(services)
    finally:
        for feed in feeds:
            try:
                _load_changes(feed, setup)
            except Exception as error:
                log.warning("feed=%s its changes are not loaded: %s: %s", feed, type(error).__name__, error)
        report_late_rows(services, setup.deployment.alerts)


def _load_changes(feed: str, setup: FeedSetup) -> None:
    """Load the feed's changes, as its file says. The file of a feed that another environment publishes may differ."""
    services = open_feed_services(read_feed_setup(setup.folders.feeds / f"{feed}.yaml", setup.folders))
    current = services.current.read()
    if current.retired is None and not current.refusal(services.environment):
        try_load_changes(services)


def report_late_rows(services: Services, settings: AlertSettings) -> None:
    """Open an incident for each table that has lacked rows for long, and end the incidents of tables that lack none.

    The incidents belong to no feed: one cause keeps the rows of all feeds from being loaded. Raises AlertNotSent if a
    notifier failed.
    """
    incidents = [
        Incident(
            IncidentKind.REPORTING,
            Severity.WARNING,
            since=since,
            what=f"table [{table}] has lacked rows since {format_time(since)}; every watchdog run tries to load them.",
            next_step="read the log of task [write_reporting_tables]: it says why BigQuery refuses the load, or which "
            "object is damaged.",
            subject=table,
            dag_id="freshness_watchdog",
        )
        for table, since in late_tables(services).items()
    ]
    report_incidents(
        services.store,
        NO_FEED,
        incidents,
        services.now(),
        settings,
        readers_see="all target tables as usual",
    )


def late_tables(services: Services) -> dict[str, datetime]:
    """The tables of all feeds that have lacked rows for longer than LATE_AFTER, each with the time since when."""
    since = [(LEDGER_TABLE, rows.since) for rows in ReportingBacklog(services.store).waiting()]
    since += [(f"{rows.feed}_changes", rows.since) for rows in ReportingBacklog(services.store, CHANGES).waiting()]
    # The oldest time of a table comes last, and stays.
    oldest = dict(sorted(since, key=lambda one: one[1], reverse=True))
    return {table: at for table, at in oldest.items() if services.now() - at > LATE_AFTER}


def reporting_incidents(store: ObjectStore, feed: str) -> list[Incident]:
    """The open incidents of tables that lack rows of this feed."""
    tables = (LEDGER_TABLE, f"{feed}_changes")
    return [incident for incident in read_incident_records(store, NO_FEED).open if incident.subject in tables]
