"""The watchdog's task for tables beside target: loads the rows that the runs of all feeds left in state."""

from __future__ import annotations

import logging

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, read_feed_setup
from dedup_clone.orchestration.shared.task_runtime import open_feed_services
from dedup_clone.publish.records.changes_table import try_load_changes
from dedup_clone.publish.records.reporting_tables import WATCHDOG, write_reporting_tables
from dedup_clone.state.pending_changes import feeds_with_pending_changes

log = logging.getLogger(__name__)


def write_missing_rows(setup: FeedSetup) -> None:
    """Load the rows that the tables lack, for all feeds. `setup` may be that of any feed."""
    services = open_feed_services(setup)
    try:
        write_reporting_tables(services, holder=WATCHDOG)
    finally:
        for feed in feeds_with_pending_changes(services.store):
            _load_changes(feed, setup)


def _load_changes(feed: str, setup: FeedSetup) -> None:
    """Load the feed's changes, if this environment publishes it. A failure is logged: others must not wait for it."""
    try:
        services = open_feed_services(read_feed_setup(setup.folders.feeds / f"{feed}.yaml", setup.folders))
    except ConfigurationError as error:
        log.warning("feed=%s its changes are not loaded: %s", feed, error)
        return
    if services.retired.read() is None and not services.is_foreign(services.current.read()):
        try_load_changes(services)
