"""Loads the rows that runs of all feeds left in state into the status table, the ledger table and FEED_changes."""

from __future__ import annotations

import logging

from dedup_clone.orchestration.shared.feed_setup import FeedSetup, read_feed_setup
from dedup_clone.orchestration.shared.task_runtime import open_feed_services
from dedup_clone.publish.records.changes_table import try_load_changes
from dedup_clone.publish.records.reporting_tables import WATCHDOG, write_reporting_tables
from dedup_clone.state.pending_changes import feeds_with_pending_changes

log = logging.getLogger(__name__)


def load_waiting_rows(setup: FeedSetup) -> None:
    """Load the waiting rows of all feeds. `setup` may be that of any feed. Raises as `write_reporting_tables` does.

    What prevents the load of one feed's changes is logged, and the other feeds' are loaded.
    """
    services = open_feed_services(setup)
    feeds = feeds_with_pending_changes(services.store)
    try:
        write_reporting_tables(services, holder=WATCHDOG)
    finally:
        for feed in feeds:
            try:
                _load_changes(feed, setup)
            except Exception as error:
                log.warning("feed=%s its changes are not loaded: %s: %s", feed, type(error).__name__, error)


def _load_changes(feed: str, setup: FeedSetup) -> None:
    """Load the feed's changes, if this environment publishes it."""
    services = open_feed_services(read_feed_setup(setup.folders.feeds / f"{feed}.yaml", setup.folders))
    if services.retired.read() is None and not services.is_foreign(services.current.read()):
        try_load_changes(services)
