"""The first step of the watch DAG: waits for a new marker, registers its delivery, and names the publish run to start.

The provider's sensors wait for one object name, and the marker of a re-delivery has the same name as before. So the
trigger here lists the landing prefix every few seconds, and compares the markers with the registered deliveries.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from dedup_clone.contract.delivery import Delivery
from dedup_clone.orchestration.setup import open_gcs_bucket
from dedup_clone.orchestration.step import FeedRun, NotYet
from dedup_clone.orchestration.watch.publish_runs import (
    MAX_RUNS,
    find_failed_publish,
    has_run,
    publish_run_id,
)
from dedup_clone.publish.services import Services
from dedup_clone.state.arrivals import Arrivals, LandingWatch
from dedup_clone.state.landing import Landing
from dedup_clone.state.store import ObjectStore

FULL_LISTING_INTERVAL_S = 5 * 60  # how often the trigger looks at the markers of old snapshots too
# The triggers of all feeds list landing in these threads. The event loop's own pool has few threads on a small machine.
LISTINGS_AT_ONCE = 16
_LISTING_THREADS = ThreadPoolExecutor(LISTINGS_AT_ONCE, thread_name_prefix="list-landing")
MAX_FIRST_DELAY_S = 5.0
# A watch run ends after this time without an arrival, so that the next run uses code that was deployed meanwhile.
IDLE_LIMIT_S = 12 * 60 * 60
# While deliveries wait, a watch run ends earlier: their publish run may have failed, and a repeat may be due.
BACKLOG_LIMIT_S = 5 * 60
# How long a watch run waits if the feed is retired, or another environment publishes it.
NOT_IN_USE_INTERVAL = timedelta(minutes=5)


def notice_delivery(run: FeedRun) -> list[dict[str, Any]]:
    """Registers the deliveries that have arrived, and returns arguments of TriggerDagRunOperator, if a run is due.

    One run publishes all that waits. The newest of the new deliveries gets it. If none is new, the newest that waits
    gets its first run (if a killed task started none), or a repeat as soon as it is due. If there is no run to start,
    waits until a marker arrives or a time limit has passed; after that, the next watch run goes on.
    """
    services, setup = run.services, run.setup
    current = services.current.read()
    refusal = current.refusal(services.environment)
    if current.retired or refusal:
        return _not_in_use(run, refusal)
    if run.event:
        services.log(f"has waited: {run.event}")
    runs_to_start, has_backlog = _register(run)
    if runs_to_start or run.event:
        return runs_to_start
    deployment, landing = setup.deployment, setup.feed.landing
    trigger = DeliveryTrigger(
        connection=deployment.google_cloud_connection,
        landing_bucket=deployment.landing_bucket,
        state_bucket=deployment.state_bucket,
        feed=setup.feed.feed,
        prefix=landing.prefix,
        marker=landing.marker,
        interval_s=deployment.notice_interval_s,
        limit_s=BACKLOG_LIMIT_S if has_backlog else IDLE_LIMIT_S,
    )
    raise NotYet("for a marker", trigger)


def _not_in_use(run: FeedRun, refusal: str | None) -> list[dict[str, Any]]:
    """Waits if the feed is retired or another environment publishes it, and registers nothing.

    After the wait, a run of a feed that another environment publishes fails, so that people see it. A delivery that
    this one registered would not be new to the other, whose trigger would wait on.
    """
    if not run.event:
        raise NotYet("the feed is retired or another environment's: registers nothing", NOT_IN_USE_INTERVAL)
    if refusal:
        raise AirflowFailException(refusal)
    return []


def _register(run: FeedRun) -> tuple[list[dict[str, Any]], bool]:
    """Registers the deliveries of all new markers, and logs invalid ones.

    Returns the arguments of the publish run to start, if one is due, and whether deliveries wait to be published.
    """
    services, publish_dag = run.services, run.setup.dag_id("publish")
    listing = services.landing.list_markers()
    for invalid in listing.invalid:
        services.log(invalid.text, level=logging.WARNING)
    new_markers = services.arrivals.unregistered(listing.markers)
    for marker in new_markers:
        services.arrivals.register(services.landing, marker)
        services.log(
            f"registered delivery [{marker.delivery.name}], arrived {marker.created_at:%Y-%m-%d %H:%M:%S} UTC",
            snapshot_id=marker.delivery.snapshot_id,
        )
    # Registered, and not live, excluded, refused or superseded; by snapshot id.
    waiting = services.arrivals.backlog(services.find_live()).apply
    due = _due_run(services, publish_dag, waiting, {marker.delivery for marker in new_markers})
    arguments = [
        {
            "trigger_run_id": publish_run_id(delivery, number),
            "conf": {
                "snapshot_id": str(delivery.snapshot_id),
                "marker_generation": str(delivery.marker_generation),
                "reason": "a delivery arrived",  # Airflow starts no run without one; the ledger has those of people
            },
        }
        for delivery, number in due
    ]
    return arguments, bool(waiting)


def _due_run(
    services: Services, publish_dag: str, waiting: tuple[Delivery, ...], new: set[Delivery]
) -> list[tuple[Delivery, int]]:
    """The delivery that is to get a run now, with the run's number; empty if no run is due."""
    if arrived := [delivery for delivery in waiting if delivery in new]:
        return [(arrived[-1], 1)]
    if waiting and not has_run(publish_dag, waiting[-1]):
        return [(waiting[-1], 1)]
    failed = find_failed_publish(services, publish_dag, waiting)
    if failed is None or failed.repeat_at is None or services.now() < failed.repeat_at:
        return []
    services.log(
        f"run [{failed.run_id}] ended and delivery [{failed.delivery.name}] waits: starts run {failed.number + 1} "
        f"of at most {MAX_RUNS}",
        snapshot_id=failed.delivery.snapshot_id,
    )
    return [(failed.delivery, failed.number + 1)]


class DeliveryTrigger(BaseTrigger):
    """Lists landing every `interval_s` seconds until there is a marker whose delivery is not registered.

    Fires without one after about `limit_s` seconds (and the time that the listings take). A failed listing is logged
    and tried again. Further arguments: `connection`, `landing_bucket`, `state_bucket`, `feed`, `prefix`, `marker`.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow leaves it untyped
        self.arguments = arguments

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from asgiref.sync import sync_to_async

        landing_watch = await sync_to_async(self._open)()
        interval_s = self.arguments["interval_s"]
        # The triggers of all feeds start together. Random delays spread their polls.
        await asyncio.sleep(random.uniform(0, min(interval_s, MAX_FIRST_DELAY_S)))
        for _ in range(int(self.arguments["limit_s"] / interval_s)):
            try:
                new = await asyncio.get_running_loop().run_in_executor(_LISTING_THREADS, landing_watch.new_markers)
            except Exception as error:
                self.log.warning("Listing %s failed, will try again: %s", self.arguments["prefix"], error)
                new = []
            if new:
                names = ", ".join(m.delivery.name for m in new)
                yield TriggerEvent(f"found markers of deliveries [{names}]")  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(interval_s)
        yield TriggerEvent("no delivery within the time limit")  # type: ignore[no-untyped-call]

    def _open(self) -> LandingWatch:
        arguments = self.arguments
        state = _shared_bucket(arguments["connection"], arguments["state_bucket"])
        landing = _shared_bucket(arguments["connection"], arguments["landing_bucket"])
        return LandingWatch(
            Landing(landing, arguments["prefix"], arguments["marker"]),
            Arrivals(state, arguments["feed"]),
            polls_per_full_listing=max(1, int(FULL_LISTING_INTERVAL_S / arguments["interval_s"])),
        )


@functools.cache
def _shared_bucket(connection: str, gcs_bucket: str) -> ObjectStore:
    """A client that the triggers of all feeds in this triggerer share, to share its connections and credentials."""
    return open_gcs_bucket(connection, gcs_bucket)
