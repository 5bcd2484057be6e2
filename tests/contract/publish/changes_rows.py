"""Reads a feed's table of changes, and the changes that wait to be loaded into it."""

from __future__ import annotations

from dedup_clone.state.pending_changes import PendingChangesFolder
from testkit.feed_on_stand_in import FeedOnStandIn


def changes(world: FeedOnStandIn) -> list[tuple[int, str, int, int | None, int]]:
    """Generation, kind, product, old and new value of each row of the table."""
    sql = f"""
        SELECT generation, change_type, product_id, old_row.attr_value AS before, new_row.attr_value AS after
        FROM warehouse.{world.feed.feed}_changes ORDER BY generation, product_id
    """
    return [tuple(r.values()) for r in world.bigquery.query_and_wait(sql)]


def ledger_figures(world: FeedOnStandIn) -> list[tuple[int, int | None]]:
    """Each generation, and how many rows of the table of changes the ledger table counts for it."""
    world.write_reporting_tables()
    table, feed = "warehouse.dedup_clone_ledger", world.feed.feed
    sql = f"SELECT generation, change_rows FROM {table} WHERE feed = '{feed}' ORDER BY generation"
    return [tuple(r.values()) for r in world.bigquery.query_and_wait(sql)]


def pending(world: FeedOnStandIn) -> list[int]:
    """The generations whose changes wait to be loaded into the table."""
    return [s.changes.generation for s in PendingChangesFolder(world.services.store, world.feed.feed).read()]
