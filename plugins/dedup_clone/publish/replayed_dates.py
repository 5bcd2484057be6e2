"""Replays of some dates of a delivery: which may be asked for.

Such a replay is not the delivery's publish. The delivery stays as it was, folded in, waiting or excluded, so that its
own publish still applies all of it; readers are told the snapshot that they were told before.
"""

from __future__ import annotations

from datetime import UTC, date, timedelta

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.landed_objects import dates_of
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.date_ranges import say_dates
from dedup_clone.publish.services import Services


def retained(services: Services) -> tuple[date, date]:
    """The oldest and the newest date that a publish which starts now takes (UTC days)."""
    today = services.now().astimezone(UTC).date()
    return today - timedelta(days=services.feed.table.retention_days - 1), today + timedelta(days=1)


def require_replayable(services: Services, delivery: Delivery, dates: tuple[date, ...], live: Manifest | None) -> None:
    """Raises ConfigurationError that says which dates are possible."""
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
    held = set(dates_of(services.arrivals.read(delivery), feed.table.partition_column))
    oldest, newest = retained(services)
    possible = [day for day in held if oldest <= day <= newest]
    too_old = [day for day in dates if day < oldest]
    absent = [day for day in dates if day >= oldest and day not in possible]
    if too_old or absent or not dates:
        raise ConfigurationError(
            f"{where} cannot be replayed: older than the retention of {feed.table.retention_days} days (oldest kept "
            f"is {oldest}): {say_dates(too_old)}; not in the delivery: {say_dates(absent)}. "
            f"Choose among: {say_dates(possible)}."
        )
