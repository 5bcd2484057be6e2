"""Finds the ledger table and tables of changes that have lacked rows for long, although runs try to load them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from dedup_clone.publish.records.ledger_table import LEDGER_TABLE
from dedup_clone.publish.services import Services
from dedup_clone.state.pending_changes import feeds_with_pending_changes, oldest_pending_changes
from dedup_clone.state.reporting_backlog import ReportingBacklog

LATE_AFTER = timedelta(hours=6)


@dataclass(frozen=True)
class LateRows:
    """A table that has lacked rows since `since`."""

    table: str
    since: datetime


def find_late_rows(services: Services) -> list[LateRows]:
    """The tables of all feeds that have lacked rows for longer than LATE_AFTER."""
    rows = ReportingBacklog(services.store).waiting()
    waiting = {LEDGER_TABLE: min((row.since for row in rows), default=None)}
    for feed in feeds_with_pending_changes(services.store):
        waiting[f"{feed}_changes"] = oldest_pending_changes(services.store, feed)
    late = services.now() - LATE_AFTER
    return [LateRows(table, since) for table, since in waiting.items() if since is not None and since < late]
