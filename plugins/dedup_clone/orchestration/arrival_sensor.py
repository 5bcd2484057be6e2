"""The sensor of the watch DAG: waits for a marker that is not registered yet, freezes what arrived, names the runs.

No sensor of the provider means "a marker that is not registered": they wait for one object name, and a re-delivery
has the name of the first. So the trigger lists the landing prefix by itself, every few seconds.
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
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.deadlines import ARRIVED_AT
from dedup_clone.publish.backlog import waiting
from dedup_clone.publish.page_index import tell_page
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import Arrivals, Landing
from dedup_clone.state.landing_watch import LandingWatch
from dedup_clone.state.misnamed import MisnamedMarkers
from dedup_clone.state.store import ObjectStore

# More than two weeks of arrivals; with those that nothing accounts for, however many: runs lost in a crash are started.
DELIVERIES_LOOKED_BACK = 100
RUNS_ASKED_FOR_AT_ONCE = 100
WHOLE_LOOK_EVERY_S = 30
IDLE_LIMIT_S = 12 * 60 * 60  # a run without arrival ends, so that new code is picked up


def publish_run_id(delivery: Delivery) -> str:
    """One run per delivery: the id holds snapshot id and marker generation."""
    return f"publish__{delivery.snapshot_id}__{delivery.marker_generation}"


class DeliverySensor(BaseOperator):
    """Returns, for TriggerDagRunOperator, one mapping per delivery that has no publish run yet."""

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Deals with what is there already; defers to the trigger when there is nothing."""
        started = self._register(connect(self.setup))
        if started:
            return started
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
        """The trigger saw a new marker (or the idle limit passed)."""
        self.log.info("feed=%s %s", self.setup.feed.feed, event["message"])
        return self._register(connect(self.setup))

    def _register(self, services: Services) -> list[dict[str, Any]]:
        look = services.landing.look()
        for misnamed in MisnamedMarkers(services.store, self.setup.feed.feed).tell(look.misnamed):
            services.fact(misnamed.text, level=logging.WARNING)
        new = services.arrivals.unregistered(look.markers)
        for marker in new:
            services.arrivals.register(services.landing, marker)
            services.fact(
                f"registered delivery [{marker.delivery.name}], arrived {marker.created_at:%Y-%m-%d %H:%M:%S} UTC",
                snapshot_id=marker.delivery.snapshot_id,
            )
        if new:
            tell_page(services)
        recent = services.arrivals.deliveries()[-DELIVERIES_LOOKED_BACK:]
        started = sorted({*recent, *(m.delivery for m in new), *_unaccounted(services)})
        landed = {marker.delivery: marker.created_at for marker in look.markers}
        return [
            {
                "trigger_run_id": publish_run_id(delivery),
                "conf": {
                    "snapshot_id": str(delivery.snapshot_id),
                    "marker_generation": str(delivery.marker_generation),
                    ARRIVED_AT: (landed.get(delivery) or services.arrivals.read(delivery).arrived_at).isoformat(),
                },
            }
            for delivery in self._without_run(started)
        ]

    def _without_run(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Asks for many at once, and one by one only where some have no run."""
        without: list[Delivery] = []
        for start in range(0, len(deliveries), RUNS_ASKED_FOR_AT_ONCE):
            asked = deliveries[start : start + RUNS_ASKED_FOR_AT_ONCE]
            if self._runs(asked) < len(asked):
                without += [d for d in asked if not self._runs([d])]
        return without

    def _runs(self, deliveries: list[Delivery]) -> int:
        ids = [publish_run_id(d) for d in deliveries]
        return int(RuntimeTaskInstance.get_dr_count(self.setup.publish_dag_id, run_ids=ids))


def _unaccounted(services: Services) -> tuple[Delivery, ...]:
    """Deliveries that wait on top of the live generation."""
    generation = services.current.read().generation
    backlog = waiting(services, None if generation is None else services.manifests.read(generation))
    return backlog.apply


class DeliveryTrigger(BaseTrigger):
    """Lists landing until there is a marker that is not registered. A failed listing is tried again, and logged."""

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
        return ("dedup_clone.orchestration.arrival_sensor.DeliveryTrigger", self.arguments)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from asgiref.sync import sync_to_async

        watched = await sync_to_async(self._open)()
        for _ in range(int(IDLE_LIMIT_S / self.arguments["interval_s"])):
            try:
                new = await asyncio.to_thread(watched.look)
            except Exception as error:
                self.log.warning("Listing %s failed, tries again: %s", self.arguments["prefix"], error)
                new = []
            if new:
                names = ", ".join(m.delivery.name for m in new)
                yield _event(f"noticed deliveries [{names}]")
                return
            await asyncio.sleep(self.arguments["interval_s"])
        yield _event("no delivery within the idle limit; the next run goes on")

    def _open(self) -> LandingWatch:
        from airflow.providers.google.cloud.hooks.gcs import GCSHook

        asked = self.arguments
        client = GCSHook(gcp_conn_id=asked["connection"]).get_conn()
        state = ObjectStore(client, asked["state_bucket"])
        return LandingWatch(
            Landing(ObjectStore(client, asked["landing_bucket"]), asked["prefix"], asked["marker"]),
            Arrivals(state, asked["feed"]),
            MisnamedMarkers(state, asked["feed"]),
            looks_until_whole=max(1, int(WHOLE_LOOK_EVERY_S / asked["interval_s"])),
        )


def _event(message: str) -> TriggerEvent:
    return TriggerEvent({"message": message})  # type: ignore[no-untyped-call]  # Airflow leaves it untyped
