"""The course of the demo: each feed lands its snapshots one after the other, the feeds side by side."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from devstack.connection import Connection
from devstack.demo import ledger, published, show
from devstack.demo.airflow_api import AirflowApi
from devstack.demo.follow import Delivery, publish_run
from devstack.demo.ledger import Published
from devstack.producer import landing, snapshots, worked_example
from devstack.producer.schema import EXAMPLE_FEED, REALISTIC_FEED

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

LOOK_EVERY_S = 0.5
REALISTIC_SNAPSHOTS = 3

Make = Callable[[int], pa.Table]


@dataclass
class Lane:
    """One feed's way through the demo: what it still has to land, and what has been published."""

    feed: str
    to_land: list[Make]
    delivery: Delivery | None = None
    publishes: list[Published] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return not self.to_land and self.delivery is None


@dataclass(frozen=True)
class Course:
    connection: Connection
    api: AirflowApi
    landing_bucket: "Bucket"
    state_bucket: "Bucket"
    day: date
    say: Callable[[str], None]

    def lanes(self) -> list[Lane]:
        """The worked example and the realistic snapshots."""
        example: list[Make] = [
            lambda id_: worked_example.before(self.day, id_, self._newest_example()),
            lambda id_: worked_example.after(self.day, id_, self._newest_example()),
        ]
        realistic: list[Make] = [
            lambda id_: snapshots.make(self.landing_bucket, REALISTIC_FEED, id_, self.day)
        ] * REALISTIC_SNAPSHOTS
        return [Lane(EXAMPLE_FEED, example), Lane(REALISTIC_FEED, realistic)]

    def _newest_example(self) -> pa.Table | None:
        landed = landing.snapshot_ids(self.landing_bucket, EXAMPLE_FEED)
        return landing.read(self.landing_bucket, EXAMPLE_FEED, landed[-1]) if landed else None

    def run(self, lanes: list[Lane], progress: show.Progress) -> None:
        """Returns when everything has been published. Raises DemoFailed as soon as one delivery fails."""
        while not all(lane.is_done for lane in lanes):
            for lane in lanes:
                if lane.delivery is None and lane.to_land:
                    self._land(lane, progress)
            texts = [text for lane in lanes if (text := self._look(lane, progress))]
            if texts:
                progress.update(" | ".join(texts))
                time.sleep(LOOK_EVERY_S)
        progress.clear()

    def _land(self, lane: Lane, progress: show.Progress) -> None:
        snapshot_id = landing.next_snapshot_id(self.landing_bucket, lane.feed)
        table = lane.to_land.pop(0)(snapshot_id)
        landed = landing.land(self.landing_bucket, lane.feed, snapshot_id, table)
        lane.delivery = Delivery(self.api, landed)
        progress.clear()
        self.say(f"  landed     {lane.feed} snapshot {snapshot_id}: {landed.rows:,} rows of {landed.dates} dates")

    def _look(self, lane: Lane, progress: show.Progress) -> str | None:
        if lane.delivery is None:
            return None
        text = lane.delivery.look()
        if text is not None:
            return text
        one = ledger.of_run(self.state_bucket, lane.feed, publish_run(lane.delivery.landed))
        lane.publishes.append(one)
        if lane.feed == EXAMPLE_FEED:
            lane.tables.append(published.read(self.connection, lane.feed))
        lane.delivery = None
        progress.clear()
        self.say(
            f"  published  {lane.feed} snapshot {one.snapshot_id} as generation {one.generation}: "
            f"{one.lag_s:.1f} s after its arrival"
        )
        return None
