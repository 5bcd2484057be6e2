"""Bundles what the steps of a feed's runs work with: settings, records in state, landing bucket, and warehouse."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from dedup_clone.contract.manifest import Manifest
from dedup_clone.settings.deployment import Deployment
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


@dataclass(frozen=True)
class Clients:
    """The buckets and the warehouse of a deployment. They belong to no feed, so that several feeds can share them.

    `job_poll_s`: as in Services. `bigquery_answers`: whether the warehouse can be asked now.
    """

    state: ObjectStore
    landing: ObjectStore
    warehouse: Warehouse
    job_poll_s: float
    bigquery_answers: bool = True

    @classmethod
    def of(cls, deployment: Deployment, gcs: Any, bigquery: Any, sql_folder: Path) -> Clients:
        """The clients of a deployment. `gcs`, `bigquery`: those of Google's libraries."""
        return cls(
            state=ObjectStore(gcs, deployment.state_bucket),
            landing=ObjectStore(gcs, deployment.landing_bucket),
            warehouse=Warehouse(
                bigquery,
                project=deployment.project,
                dataset=deployment.dataset,
                location=deployment.location,
                sql_folder=sql_folder,
            ),
            job_poll_s=deployment.job_poll_interval_s,
        )

    def of_feed(
        self,
        feed: Feed,
        *,
        environment: str,
        is_running: Callable[[str, str], bool],
        now: Callable[[], datetime] = utc_now,
    ) -> Services:
        """The services of one feed."""
        return Services(
            feed=feed,
            names=self.warehouse.table_names(feed.staging, feed.target),
            store=self.state,
            landing=Landing(self.landing, feed.landing.prefix, feed.landing.marker),
            arrivals=Arrivals(self.state, feed.feed),
            current=CurrentFile(self.state, feed.feed),
            manifests=Manifests(self.state, feed.feed),
            ledger=Ledger(self.state, feed.feed),
            warehouse=self.warehouse,
            job_poll_s=self.job_poll_s,
            environment=environment,
            is_running=is_running,
            now=now,
        )
