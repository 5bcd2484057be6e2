"""Makes an archive of snapshots, and lands and registers them as a backfill does."""

from __future__ import annotations

from dedup_clone.publish.backfill.archived_snapshots import BackfillRequest
from dedup_clone.publish.backfill.land_snapshots import land_next_snapshots
from dedup_clone.state.landing import Landing
from dedup_clone.state.store import ObjectStore
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, Row, parquet_bytes


class Archive:
    """An archive for the feed of `world`. It is a folder of the state bucket, so that copies go to another bucket."""

    def __init__(self, world: FeedOnStandIn) -> None:
        self.world = world
        self.prefix = f"archive_of_{world.feed.feed}/old"
        self.request = BackfillRequest(f"gs://{world.places.state}/{self.prefix}", None, None, 1, 0)
        self.landing = Landing(ObjectStore(world.storage, world.places.state), self.prefix, world.feed.landing.marker)

    def put(self, snapshot_id: int, rows: list[Row]) -> None:
        """Write a snapshot with one file and its marker into the archive."""
        bucket, folder = self.world.storage.bucket(self.world.places.state), f"{self.prefix}/snapshot_id={snapshot_id}"
        bucket.blob(f"{folder}/date={TODAY}/part-0.parquet").upload_from_string(parquet_bytes(rows))
        bucket.blob(f"{folder}/{self.world.feed.landing.marker}").upload_from_string("")

    def land_next(self) -> bool:
        """Land the next snapshots. Returns whether nothing is left to do."""
        return land_next_snapshots(self.world.services, self.landing, self.request)

    def notice(self) -> list[str]:
        """Register what has landed, as the watch DAG does. Returns the names of the new deliveries."""
        services = self.world.services
        markers = services.arrivals.unregistered(services.landing.markers())
        for marker in markers:
            services.arrivals.register(services.landing, marker)
        return [marker.delivery.name for marker in markers]
