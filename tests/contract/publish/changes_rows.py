"""Reads a feed's table of changes, and the changes that wait to be loaded into it."""

from __future__ import annotations

from testkit.feed_on_stand_in import FeedOnStandIn


def changes(world: FeedOnStandIn) -> list[tuple[int, str, int, int | None, int]]:
    """Generation, kind, product, old and new value of each row of the table."""
    columns = "generation, change_type, product_id, old_row.attr_value AS before, new_row.attr_value AS after"
    return world.query(f"SELECT {columns} FROM .{world.feed.feed}_changes ORDER BY generation, product_id")


def ledger_figures(world: FeedOnStandIn) -> list[tuple[int, int | None]]:
    """Each generation, and how many rows of the table of changes the ledger table counts for it."""
    world.write_reporting_tables()
    return world.reported("generation, change_rows")


def pending(world: FeedOnStandIn) -> list[int]:
    """The generations whose changes wait to be loaded into the table."""
    waiting = world.state_of("_reporting").names(f"changes/{world.feed.feed}/")
    return [int(name.split("/")[2][:8]) for name in waiting]
