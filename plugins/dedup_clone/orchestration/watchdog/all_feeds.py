"""The watchdog's check of all feeds: a few feeds at once, with clients that all feeds share."""

from __future__ import annotations

import logging
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from dedup_clone.contract.errors import (
    AlertNotSent,
    ConfigurationError,
    ContractViolation,
    FeedHeldElsewhere,
    FeedsNotChecked,
)
from dedup_clone.freshness.evaluation import keep_first_seen
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity, read_incident_records
from dedup_clone.freshness.verdict import FreshnessStatus, FreshnessVerdict, checked_feeds, read_verdict
from dedup_clone.orchestration.dag_factory import is_permanent
from dedup_clone.orchestration.setup import (
    DeployedFolders,
    FeedSetup,
    environment_name,
    open_clients,
    read_feed_setup,
)
from dedup_clone.orchestration.watchdog.feed_check import (
    check_feed,
    forget,
    forget_if_retired,
    gauges_line,
    store_verdict,
)
from dedup_clone.orchestration.watchdog.notifiers import report_incidents
from dedup_clone.publish.services import Clients, utc_now
from dedup_clone.settings.deployment import AlertSettings, read_deployment
from dedup_clone.state.current import CurrentFile
from dedup_clone.state.store import ObjectStore

log = logging.getLogger(__name__)
FEEDS_AT_ONCE = 8


def first_valid_setup(folders: DeployedFolders) -> FeedSetup | None:
    """The setup of the first feed whose file is valid; None when there is none."""
    for path in folders.feed_files:
        try:
            return read_feed_setup(path, folders)
        except ConfigurationError:  # the feed's DAGs and the watchdog's check show it
            continue
    return None


def check_all_feeds(folders: DeployedFolders) -> dict[str, list[str]]:
    """Checks every feed. Returns the names of the incidents by feed, without feeds that have none.

    A feed whose file is invalid has an incident, and so has one whose file is missing. If a feed cannot be checked, the
    others are checked all the same. Then FeedsNotChecked is raised, also if only an alert could not be sent; it gives
    the reason for each feed. Raises ConfigurationError if the profile is invalid.
    """
    deployment = read_deployment(folders.profiles)
    clients = _with_cached_views(open_clients(deployment, folders.sql))

    files = {path.stem: path for path in folders.feed_files}

    def check(feed: str) -> tuple[str, list[str] | Exception]:
        return feed, _check(feed, files.get(feed), folders, clients, deployment.alerts)

    with ThreadPoolExecutor(FEEDS_AT_ONCE) as pool:
        results = dict(pool.map(check, [*files, *_feeds_without_file(clients.state, files)]))
    failed = {feed: result for feed, result in results.items() if isinstance(result, Exception)}
    unsent = sum(isinstance(error, AlertNotSent) for error in failed.values())  # their feeds were checked
    unchecked = len(failed) - unsent
    if unchecked < len(results) or not results:
        _emit_heartbeat(len(results) - unchecked)
    if failed:
        reasons = "\n  ".join(f"[{feed}] {error}" for feed, error in failed.items())
        not_sent = f", but alerts about {unsent} of them were not sent" if unsent else ""
        raise FeedsNotChecked(
            f"{unchecked} of {len(results)} feeds could not be checked; the others were{not_sent}. Correct what each "
            f"reason names; the next check tries again:\n  {reasons}"
        )
    return {feed: result for feed, result in results.items() if isinstance(result, list) and result}


def _with_cached_views(clients: Clients) -> Clients:
    """The clients, with the materialized views read once for all feeds.

    If BigQuery does not answer, `bigquery_answers` of the returned clients is False: feeds are checked without target.
    If it refuses, each feed's check asks again, so that each feed's alert tells of the refusal.
    """
    try:
        clients.warehouse.cache_materialized_views()
    except Exception as error:
        if is_permanent(error):
            return clients
        log.warning("BigQuery does not answer, so no target is checked: %s", error)
        return replace(clients, bigquery_answers=False)
    return clients


def _emit_heartbeat(feeds_checked: int) -> None:
    """Emits the gauge whose absence tells an alarm outside Airflow that nobody checks the feeds."""
    from airflow.sdk.observability import stats

    log.info("%s", gauges_line({"feeds_checked": feeds_checked}))
    stats.gauge("dedup_clone.feeds_checked", float(feeds_checked))


def _feeds_without_file(store: ObjectStore, files: Collection[str]) -> list[str]:
    """The feeds with a verdict that are not in `files`, and that this environment has published.

    Also those that nobody has published, or checked for a day: their file was renamed or deleted. Other environments
    may have feeds of their own in the same bucket.
    """
    found, own, yesterday = [], environment_name(), utc_now() - timedelta(days=1)
    for feed in sorted(checked_feeds(store) - set(files)):
        with suppress(ContractViolation):
            publisher, verdict = CurrentFile(store, feed).read().environment, read_verdict(store, feed)
            if publisher == own or (not publisher and verdict is not None and verdict.checked_at < yesterday):
                found.append(feed)
    return found


def _check(
    feed: str, path: Path | None, folders: DeployedFolders, clients: Clients, alerts: AlertSettings
) -> list[str] | Exception:
    """Checks one feed. Returns the names of its incidents, or the error for which the watchdog's task must fail.

    `path`: the feed's file; None if there is none.
    """
    try:
        try:
            if path is None:
                if not CurrentFile(clients.state, feed).read().environment:
                    forget(clients.state, feed, alerts, readers_see="no table: nothing was published")
                    return []
                raise ConfigurationError(
                    f"[{folders.feeds / feed}.yaml] is missing: deploy it again. To take the feed out of use, run "
                    f"[dedup_clone_retire] before the file is deleted."
                )
            setup = read_feed_setup(path, folders)
        except ConfigurationError as error:
            return _report_invalid_feed_file(feed, error, clients.state, alerts)
        try:
            return check_feed(setup, clients)
        except FeedHeldElsewhere as error:  # perhaps its environment is this one, renamed
            log.warning("feed=%s not checked: %s", feed, error)
            _report_unchecked_feed(feed, error, clients.state, alerts)
            return []
    except AlertNotSent as error:  # the feed was checked
        return error
    except Exception as error:
        try:
            _report_unchecked_feed(feed, error, clients.state, alerts)
        except Exception:
            log.exception("feed=%s its failed check could not be reported; the next check tries again", feed)
        return error


def _report_invalid_feed_file(
    feed: str, error: ConfigurationError, store: ObjectStore, settings: AlertSettings
) -> list[str]:
    """Open the incident, store the verdict, and return the names of its incidents.

    The first check after the file was corrected ends the incident. Does nothing if the feed is retired, or if another
    environment publishes it. Raises AlertNotSent.
    """
    now, current = utc_now(), CurrentFile(store, feed).read()
    if current.retired or current.refusal(environment_name()):
        forget_if_retired(store, feed, environment_name(), settings)
        return []
    at_work = f" Run [{current.intent.run_id}] has the lease, and cannot go on." if current.intent else ""
    incident = Incident(
        IncidentKind.STOPPED,
        Severity.ALERT,
        since=now,
        what=f"the file of feed [{feed}] cannot be read: no delivery is registered and nothing is published.{at_work} "
        f"{error}",
        next_step="correct the file and deploy it; deliveries that have landed meanwhile are found.",
        subject="feed_file_invalid",
    )
    verdict = replace(_last_verdict(feed, now, store, settings), status=FreshnessStatus.STOPPED, checked_at=now)
    return _report(incident, verdict, now, store, settings)


def _report_unchecked_feed(feed: str, error: Exception, store: ObjectStore, settings: AlertSettings) -> None:
    """Report the incident if the last verdict is stale, or if there is none. The next check that succeeds ends it.

    One failed check after a good one is not reported, because the next check follows soon. Raises AlertNotSent.
    """
    now = utc_now()
    last = _last_verdict(feed, now, store, settings)
    if last.status is not FreshnessStatus.UNKNOWN and not last.is_stale(now):
        return
    incident = Incident(
        IncidentKind.REPORTING,
        Severity.ALERT,
        since=last.checked_at,
        what=f"the watchdog cannot check the feed: {type(error).__name__}: {error}",
        next_step="correct what the error names; the next check then finds whatever else is wrong.",
        subject="not_checked",
        dag_id="freshness_watchdog",
    )
    _report(incident, last, now, store, settings)


def _last_verdict(feed: str, now: datetime, store: ObjectStore, settings: AlertSettings) -> FreshnessVerdict:
    """The last verdict, or one of `now` that says that no check has succeeded yet."""
    last = read_verdict(store, feed)
    if last is not None and last.status is not FreshnessStatus.UNKNOWN:
        return last
    readers_see = "what was published last, if anything was: no check has succeeded yet"
    return FreshnessVerdict(feed, FreshnessStatus.UNKNOWN, readers_see, (), now, runbook=settings.runbook)


def _report(
    incident: Incident, verdict: FreshnessVerdict, now: datetime, store: ObjectStore, settings: AlertSettings
) -> list[str]:
    """Report an incident of a feed that cannot be checked, and store the verdict with it. Returns its incidents' names.

    The verdict also has the feed's other open incidents, which nothing looks for meanwhile. Raises AlertNotSent when a
    notifier failed; the next check sends the alert again.
    """
    feed, reported = verdict.feed, read_incident_records(store, verdict.feed).open
    (found,) = keep_first_seen([incident], now, reported)
    incidents = (found, *(other for other in reported if other.name != found.name))
    store_verdict(store, replace(verdict, incidents=incidents))
    readers_see = verdict.readers_see
    if verdict.is_stale(now):
        readers_see = f"unknown; at the last check: {readers_see}"
    report_incidents(store, feed, incidents, now, settings, readers_see=readers_see)
    return [one.name for one in incidents]
