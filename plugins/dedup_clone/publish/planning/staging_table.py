"""Gives staging the form that the feed file declares, before a publish or a bootstrap loads it."""

from __future__ import annotations

from dedup_clone.publish.planning.declared_changes import is_shorter
from dedup_clone.publish.services import Services
from dedup_clone.state.current import lease_held_error


def prepare_staging(services: Services) -> None:
    """Create staging, unless it exists, and let it keep its partitions longer if the feed file says so.

    Call it while the run holds the lease. A shorter retention deletes rows; `approve_retention` sets it.
    """
    feed = services.feed
    staging = services.warehouse.table(feed.staging)
    if staging is None:
        services.warehouse.create_staging(services.names, feed.table.to_contract())
    elif staging.expiration_days != feed.table.retention_days and not is_shorter(feed.table.retention_days, staging):
        _set_retention(services)


def approve_retention(services: Services) -> None:
    """Let staging keep its partitions as long as the feed file says, also if that is shorter than now.

    Target follows with the next swap. Raises LeaseHeld while a run is at work, whose checks count staging's rows.
    """
    intent = services.current.read().intent
    if intent is not None:
        raise lease_held_error(services.feed.feed, intent)
    _set_retention(services)


def _set_retention(services: Services) -> None:
    days = services.feed.table.retention_days
    services.warehouse.set_partition_expiration(services.feed.staging, days)
    services.log(f"staging table {services.names.staging_table} keeps its partitions for {days} days from now on")
