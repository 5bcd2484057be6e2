"""The watchdog's check of all feeds: a few feeds at once, with clients that all feeds share."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from dedup_clone.contract.errors import AlertNotSent, ConfigurationError, FeedsNotChecked
from dedup_clone.freshness.metrics import gauges_line
from dedup_clone.orchestration.shared.feed_setup import DeployedFolders, FeedSetup, read_feed_setup
from dedup_clone.orchestration.shared.retries import is_permanent
from dedup_clone.orchestration.shared.task_runtime import Clients, open_clients
from dedup_clone.orchestration.watchdog.feed_check import check_feed
from dedup_clone.orchestration.watchdog.invalid_feed_file import report_invalid_feed_file
from dedup_clone.orchestration.watchdog.unchecked_feed import report_unchecked_feed
from dedup_clone.settings.alert_settings import AlertSettings
from dedup_clone.settings.deployment import read_deployment

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

    If a feed cannot be checked, the others are checked all the same. Then FeedsNotChecked is raised, also if only an
    alert could not be sent; it gives the reason for each feed. Raises ConfigurationError if the profile is invalid.
    """
    deployment = read_deployment(folders.profiles)
    clients = _with_cached_views(open_clients(deployment, folders.sql))

    def check(path: Path) -> tuple[str, list[str] | Exception]:
        return path.stem, _check(path, folders, clients, deployment.alerts)

    with ThreadPoolExecutor(FEEDS_AT_ONCE) as pool:
        results = dict(pool.map(check, folders.feed_files))
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
    """
    try:
        clients.warehouse.cache_materialized_views()
    except Exception as error:
        if is_permanent(error):
            raise
        log.warning("BigQuery does not answer, so no target is checked: %s", error)
        return replace(clients, bigquery_answers=False)
    return clients


def _emit_heartbeat(feeds_checked: int) -> None:
    """Emits the gauge whose absence tells an alarm outside Airflow that nobody checks the feeds."""
    from airflow.sdk.observability import stats

    log.info("%s", gauges_line({"feeds_checked": feeds_checked}))
    stats.gauge("dedup_clone.feeds_checked", float(feeds_checked))


def _check(path: Path, folders: DeployedFolders, clients: Clients, alerts: AlertSettings) -> list[str] | Exception:
    """Checks one feed. Returns the names of its incidents, or the error for which the watchdog's task must fail."""
    try:
        setup = read_feed_setup(path, folders)
    except ConfigurationError as error:
        return _report_invalid_file(path.stem, error, clients, alerts)
    try:
        return check_feed(setup, clients)
    except AlertNotSent as error:  # the feed was checked
        return error
    except Exception as error:
        _try_report_unchecked(path.stem, error, clients, alerts)
        return error


def _try_report_unchecked(feed: str, error: Exception, clients: Clients, alerts: AlertSettings) -> None:
    try:
        report_unchecked_feed(feed, error, clients.state, alerts)
    except Exception:
        log.exception("feed=%s its failed check could not be reported; the next check tries again", feed)


def _report_invalid_file(feed: str, invalid: ConfigurationError, clients: Clients, alerts: AlertSettings) -> Exception:
    """Reports the invalid file. Returns the error with which this feed's check ends."""
    try:
        report_invalid_feed_file(feed, invalid, clients.state, alerts, alerts.check_interval_minutes * 60)
    except Exception as error:
        log.exception("feed=%s its invalid file could not be reported; the next check tries again", feed)
        return error
    return invalid
