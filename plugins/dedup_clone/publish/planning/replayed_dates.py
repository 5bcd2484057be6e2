"""Checks whether some dates of a delivery can be replayed without its other dates.

Such a replay changes only rows: the delivery stays included, waiting, refused or excluded as before. If it waits, its
own publish still applies all dates. Status view and page name the same snapshot as before.
"""

from __future__ import annotations

from datetime import date

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.landed_objects import objects_by_date
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.services import Services


def require_replayable(services: Services, delivery: Delivery, dates: tuple[date, ...], live: Manifest | None) -> None:
    """Raise ConfigurationError if one of `dates` cannot be replayed; the error says what can be done instead."""
    feed = services.feed
    where = f"Dates of delivery [{delivery.name}] of [{feed.feed}]"
    if live is None:
        raise ConfigurationError(f"{where} cannot be replayed before the first publish: replay the whole snapshot.")
    if not feed.landing.date_folders:
        raise ConfigurationError(
            f"{where} cannot be told apart: the feed lands no date folders. Replay the whole snapshot."
        )
    if feed.update_id_mode is UpdateIdMode.LAST_CHANGED and delivery not in live.deliveries[-1:]:
        published = f"delivery [{live.deliveries[-1].name}]" if live.deliveries else "delivery (none yet)"
        raise ConfigurationError(
            f"{where} cannot be replayed: mode [last_changed] needs snapshots in order, so only dates of the newest "
            f"published {published} can. Name that one, or publish the whole snapshot."
        )
    delivered = set(objects_by_date(services.arrivals.read(delivery), feed.table.partition_column))
    oldest, newest = services.retention_window()
    possible = [day for day in delivered if oldest <= day <= newest]
    too_old = [day for day in dates if day < oldest]
    absent = [day for day in dates if day >= oldest and day not in possible]
    if too_old or absent or not dates:
        raise ConfigurationError(
            f"{where} cannot be replayed: older than the retention of {feed.table.retention_days} days (the oldest "
            f"is {oldest}): {format_dates(too_old)}; not in the delivery: {format_dates(absent)}. "
            f"Choose among: {format_dates(possible)}."
        )
