"""The watchdog's task for the reporting tables: loads the rows that the runs of all feeds left in state."""

from __future__ import annotations

from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.task_runtime import open_feed_services
from dedup_clone.publish.records.reporting_tables import WATCHDOG, write_reporting_tables


def write_missing_rows(setup: FeedSetup) -> None:
    """Load the rows that the tables lack, for all feeds. `setup` may be that of any feed."""
    write_reporting_tables(open_feed_services(setup), holder=WATCHDOG)
