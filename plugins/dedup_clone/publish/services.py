"""Bundles what the steps of a feed's runs work with: settings, records in state, landing bucket, and warehouse."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from dedup_clone.contract.manifest import Manifest
from dedup_clone.settings.feed import Feed
from dedup_clone.state.arrivals import Arrivals
from dedup_clone.state.current import CurrentFile
from dedup_clone.state.landing import Landing
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.ledger import Ledger
from dedup_clone.state.manifests import Manifests
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.bigquery import Warehouse
from dedup_clone.warehouse.sql_files import TableNames

_LOGGER = logging.getLogger("dedup_clone")


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Services:
    """What the steps of one feed's runs work with.

    `store`: the state bucket. `job_poll_s`: seconds between two polls of a running BigQuery job. `environment`: the
    name of this Airflow installation. `is_running(dag_id, run_id)`: whether that run of this installation is possibly
    at work. `now()`: the present time in UTC.
    """

    feed: Feed
    names: TableNames
    store: ObjectStore
    landing: Landing
    arrivals: Arrivals
    current: CurrentFile
    manifests: Manifests
    ledger: Ledger
    warehouse: Warehouse
    job_poll_s: float
    environment: str
    is_running: Callable[[str, str], bool]
    now: Callable[[], datetime] = utc_now

    @property
    def layout(self) -> FeedLayout:
        return FeedLayout(self.feed.feed)

    def find_live(self) -> Manifest | None:
        """The live generation's manifest; None without one. Raises ContractViolation if it is gone."""
        generation = self.current.read().generation
        return None if generation is None else self.manifests.read(generation)

    def retention_window(self) -> tuple[date, date]:
        """The oldest and the newest date (UTC) that a publish which starts now accepts."""
        today = self.now().astimezone(UTC).date()
        return self.feed.table.to_contract().oldest_day(today), today + timedelta(days=1)

    def log(
        self, text: str, *, snapshot_id: int | None = None, generation: int | None = None, level: int = logging.INFO
    ) -> None:
        """Log one line, prefixed with feed, snapshot id and generation."""
        prefix = f"feed={self.feed.feed} snapshot_id={snapshot_id or '-'} generation={generation or '-'}"
        _LOGGER.log(level, "%s %s", prefix, text)


def open_services(
    feed: Feed,
    *,
    state: ObjectStore,
    landing: ObjectStore,
    warehouse: Warehouse,
    job_poll_s: float,
    environment: str,
    is_running: Callable[[str, str], bool],
    now: Callable[[], datetime] = utc_now,
) -> Services:
    """The services of one feed over its state bucket, its landing bucket and a warehouse."""
    return Services(
        feed=feed,
        names=warehouse.table_names(feed.staging, feed.target),
        store=state,
        landing=Landing(landing, feed.landing.prefix, feed.landing.marker),
        arrivals=Arrivals(state, feed.feed),
        current=CurrentFile(state, feed.feed),
        manifests=Manifests(state, feed.feed),
        ledger=Ledger(state, feed.feed),
        warehouse=warehouse,
        job_poll_s=job_poll_s,
        environment=environment,
        is_running=is_running,
        now=now,
    )
