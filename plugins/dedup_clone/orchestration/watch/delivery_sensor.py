"""The sensor of the watch DAG: waits for a new marker, registers its delivery, and names the publish runs to start.

The provider's sensors wait for one object name, and the marker of a re-delivery has the same name as before. So the
trigger here lists the landing prefix every few seconds, and compares the markers with the registered deliveries.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.triggers.base import BaseTrigger, TriggerEvent

from dedup_clone.contract.delivery import Delivery
from dedup_clone.orchestration.publish.freshness_deadline import ARRIVED_AT
from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.task_runtime import open_feed_services, open_gcs_bucket
from dedup_clone.publish.planning.waiting_deliveries import find_backlog
from dedup_clone.publish.records.index_refresh import try_refresh_index
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import Arrivals, InvalidMarkers, LandingWatch
from dedup_clone.state.landing import Landing

# A publish run that is missing, after a crash for instance, is started for this many of the newest deliveries (two
# weeks and more), and for all that the live generation does not include.
RECENT_DELIVERIES = 100
RUN_IDS_PER_CALL = 100
FULL_LISTING_INTERVAL_S = 30
IDLE_LIMIT_S = 12 * 60 * 60  # a watch run then ends without an arrival, so that the next one uses new code


def publish_run_id(delivery: Delivery) -> str:
    """The id of the delivery's publish run. It is unique to the delivery, so that each gets one run."""
    return f"publish__{delivery.snapshot_id}__{delivery.marker_generation}"


class DeliverySensor(BaseOperator):
    """Returns one mapping per delivery without a publish run: arguments of TriggerDagRunOperator."""

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Registers what has arrived already. When there is nothing to start, defers until a marker arrives."""
        runs_to_start = self._register(open_feed_services(self.setup))
        if runs_to_start:
            return runs_to_start
        deployment, landing = self.setup.deployment, self.setup.feed.landing
        self.defer(
            trigger=DeliveryTrigger(
                connection=deployment.google_cloud_connection,
                landing_bucket=deployment.landing_bucket,
                state_bucket=deployment.state_bucket,
                feed=self.setup.feed.feed,
                prefix=landing.prefix,
                marker=landing.marker,
                interval_s=deployment.notice_interval_s,
            ),
            method_name="register_deliveries",
        )

    def register_deliveries(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Called when the trigger found a new marker, or when the idle limit has passed."""
        self.log.info("feed=%s %s", self.setup.feed.feed, event["message"])
        return self._register(open_feed_services(self.setup))

    def _register(self, services: Services) -> list[dict[str, Any]]:
        listing = services.landing.list_markers()
        for invalid in InvalidMarkers(services.store, self.setup.feed.feed).record_new(listing.invalid):
            services.log(invalid.text, level=logging.WARNING)
        new = services.arrivals.unregistered(listing.markers)
        for marker in new:
            services.arrivals.register(services.landing, marker)
            services.log(
                f"registered delivery [{marker.delivery.name}], arrived {marker.created_at:%Y-%m-%d %H:%M:%S} UTC",
                snapshot_id=marker.delivery.snapshot_id,
            )
        if new:
            try_refresh_index(services)
        recent = services.arrivals.deliveries()[-RECENT_DELIVERIES:]
        expected = sorted({*recent, *(m.delivery for m in new), *_backlog(services)})
        landed = {marker.delivery: marker.created_at for marker in listing.markers}
        return [
            {
                "trigger_run_id": publish_run_id(delivery),
                "conf": {
                    "snapshot_id": str(delivery.snapshot_id),
                    "marker_generation": str(delivery.marker_generation),
                    ARRIVED_AT: (landed.get(delivery) or services.arrivals.read(delivery).arrived_at).isoformat(),
                },
            }
            for delivery in self._without_run(expected)
        ]

    def _without_run(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Airflow can only count runs: those of a batch are counted, and each single one where the batch lacks some."""
        without: list[Delivery] = []
        for start in range(0, len(deliveries), RUN_IDS_PER_CALL):
            batch = deliveries[start : start + RUN_IDS_PER_CALL]
            if self._count_runs(batch) < len(batch):
                without += [d for d in batch if not self._count_runs([d])]
        return without

    def _count_runs(self, deliveries: list[Delivery]) -> int:
        ids = [publish_run_id(d) for d in deliveries]
        return int(RuntimeTaskInstance.get_dr_count(self.setup.dag_id("publish"), run_ids=ids))


def _backlog(services: Services) -> tuple[Delivery, ...]:
    """Waiting deliveries that the live generation does not include."""
    generation = services.current.read().generation
    backlog = find_backlog(services, None if generation is None else services.manifests.read(generation))
    return backlog.apply


class DeliveryTrigger(BaseTrigger):
    """Lists landing until there is a marker that is not registered. A failed listing is logged and tried again."""

    def __init__(
        self,
        *,
        connection: str,
        landing_bucket: str,
        state_bucket: str,
        feed: str,
        prefix: str,
        marker: str,
        interval_s: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow leaves it untyped
        self.arguments: dict[str, Any] = {
            "connection": connection,
            "landing_bucket": landing_bucket,
            "state_bucket": state_bucket,
            "feed": feed,
            "prefix": prefix,
            "marker": marker,
            "interval_s": interval_s,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from asgiref.sync import sync_to_async

        landing_watch = await sync_to_async(self._open)()
        for _ in range(int(IDLE_LIMIT_S / self.arguments["interval_s"])):
            try:
                new = await asyncio.to_thread(landing_watch.new_markers)
            except Exception as error:
                self.log.warning("Listing %s failed, will try again: %s", self.arguments["prefix"], error)
                new = []
            if new:
                names = ", ".join(m.delivery.name for m in new)
                yield _event(f"found markers of deliveries [{names}]")
                return
            await asyncio.sleep(self.arguments["interval_s"])
        yield _event("no delivery within the idle limit: the next run of this DAG goes on waiting")

    def _open(self) -> LandingWatch:
        arguments = self.arguments
        state = open_gcs_bucket(arguments["connection"], arguments["state_bucket"])
        landing = open_gcs_bucket(arguments["connection"], arguments["landing_bucket"])
        return LandingWatch(
            Landing(landing, arguments["prefix"], arguments["marker"]),
            Arrivals(state, arguments["feed"]),
            InvalidMarkers(state, arguments["feed"]),
            polls_per_full_listing=max(1, int(FULL_LISTING_INTERVAL_S / arguments["interval_s"])),
        )


def _event(message: str) -> TriggerEvent:
    return TriggerEvent({"message": message})  # type: ignore[no-untyped-call]  # Airflow leaves it untyped
