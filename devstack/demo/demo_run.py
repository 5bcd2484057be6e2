"""Publishes the demo's snapshots: those of one feed one after the other, several feeds at the same time."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from dedup_clone.contract.delivery import Delivery
from dedup_clone.state.ledger import Ledger, LedgerRecord, Outcome
from dedup_clone.state.store import ObjectStore
from devstack.connection import Connection
from devstack.demo import terminal_output
from devstack.demo.airflow_api import AirflowApi, DemoError
from devstack.demo.delivery_progress import DeliveryProgress, publish_run_id
from devstack.demo.table_comparison import read_target
from devstack.producer import feeds, landing, next_snapshot, worked_example
from devstack.producer.feeds import EXAMPLE_FEED, REALISTIC_FEED, SCHEMA

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

POLL_INTERVAL_S = 0.5
REALISTIC_SNAPSHOTS = 3

MakeSnapshot = Callable[[int], pa.Table]  # makes the rows of the snapshot with the given id


@dataclass
class FeedSequence:
    """The snapshots of one feed that are landed and published one after the other, and the progress so far.

    `to_land`: functions that make the snapshots that are still to be landed. `delivery`: the landed snapshot that is
    being published; None if none is. `publishes`: the ledger record of each finished publish. `tables`: the published
    table after each finished publish, of the worked example only.
    """

    feed: str
    to_land: list[MakeSnapshot]
    delivery: DeliveryProgress | None = None
    publishes: list[LedgerRecord] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return not self.to_land and self.delivery is None


@dataclass(frozen=True)
class DemoRun:
    """What the demo needs to land snapshots and to follow their publishes. `day`: the newest date of the snapshots."""

    connection: Connection
    api: AirflowApi
    landing_bucket: "Bucket"
    state_bucket: "Bucket"
    day: date
    log: Callable[[str], None]

    def sequences(self) -> list[FeedSequence]:
        """The sequences of snapshots of the worked example's feed and of the realistic feed."""
        example: list[MakeSnapshot] = [
            lambda id_: worked_example.before(self.day, id_, self._newest_example(id_)),
            lambda id_: worked_example.after(self.day, id_, self._newest_example(id_)),
        ]
        realistic: list[MakeSnapshot] = [
            lambda id_: next_snapshot.make(
                self.landing_bucket, REALISTIC_FEED, id_, self.day, self.refused(REALISTIC_FEED)
            )
        ] * REALISTIC_SNAPSHOTS
        return [FeedSequence(EXAMPLE_FEED, example), FeedSequence(REALISTIC_FEED, realistic)]

    def refused(self, feed: str) -> list[Delivery]:
        """The deliveries of the feed that were refused."""
        return landing.refused_deliveries(self.state_bucket, feed)

    def _newest_example(self, below_id: int) -> pa.Table | None:
        """The newest valid snapshot of the worked example; None if there is none."""
        feed = feeds.read(EXAMPLE_FEED)
        return next_snapshot.newest_valid(self.landing_bucket, feed, below_id, SCHEMA, self.refused(EXAMPLE_FEED))

    def run(self, sequences: list[FeedSequence], progress: terminal_output.Progress) -> None:
        """Publish all snapshots of these feeds. Raises DemoError as soon as one publish fails."""
        while not all(sequence.is_done for sequence in sequences):
            for sequence in sequences:
                if sequence.delivery is None and sequence.to_land:
                    self._land(sequence, progress)
            texts = [text for sequence in sequences if (text := self._poll(sequence, progress))]
            if texts:
                progress.update(" | ".join(texts))
                time.sleep(POLL_INTERVAL_S)
        progress.clear()

    def _land(self, sequence: FeedSequence, progress: terminal_output.Progress) -> None:
        snapshot_id = landing.next_snapshot_id(self.landing_bucket, sequence.feed)
        table = sequence.to_land.pop(0)(snapshot_id)
        landed = landing.land(self.landing_bucket, feeds.read(sequence.feed), snapshot_id, table)
        sequence.delivery = DeliveryProgress(self.api, landed)
        progress.clear()
        landed_rows = f"{landed.row_count:,} rows of {landed.date_count} dates"
        self.log(f"  landed     {sequence.feed} snapshot {snapshot_id}: {landed_rows}")

    def _poll(self, sequence: FeedSequence, progress: terminal_output.Progress) -> str | None:
        """What the feed's publish is doing, as text; None if none is running. Records a publish that has succeeded."""
        if sequence.delivery is None:
            return None
        text = sequence.delivery.poll()
        if text is not None:
            return text
        record = read_record(self.state_bucket, sequence.feed, publish_run_id(sequence.delivery.landed))
        sequence.publishes.append(record)
        if sequence.feed == EXAMPLE_FEED:
            sequence.tables.append(read_target(self.connection, sequence.feed))
        sequence.delivery = None
        progress.clear()
        self.log(
            f"  published  {sequence.feed} snapshot {record.snapshot_id} as generation {record.generation}: "
            f"{record.lag_s or 0:.1f} s after its arrival"
        )
        return None


def read_record(state_bucket: "Bucket", feed: str, run_id: str) -> LedgerRecord:
    """The ledger record of a run that has published. Raises DemoError if the ledger has none."""
    for record in reversed(Ledger(ObjectStore(state_bucket.client, state_bucket.name), feed).recent(0)):
        if record.outcome is Outcome.PUBLISHED and record.run_id == run_id:
            return record
    raise DemoError(
        f"Run [{run_id}] of [{feed}_publish] succeeded, but gs://{state_bucket.name}/{feed}/ledger/ has no record of "
        f"it with outcome [{Outcome.PUBLISHED}]: look at the run's last tasks."
    )
