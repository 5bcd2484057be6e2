"""An archive of snapshots, and `python -m deploy backfill`, which lands them while the feed's DAGs are at work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import yaml

from deploy.__main__ import main
from testkit.deliveries import register_all
from testkit.feed_on_stand_in import REPOSITORY, TODAY, FeedOnStandIn, Row, parquet_bytes


class Archive:
    """A folder of the state bucket, so that copies go to another bucket. `folder`: gets the feed file."""

    def __init__(self, world: FeedOnStandIn, folder: Path) -> None:
        self.world, self._dags = world, folder / world.feed.feed
        self.prefix = f"archive_of_{world.feed.feed}/old"

    def put(self, snapshot_id: int, rows: list[Row]) -> None:
        """Write a snapshot with one file and its marker into the archive."""
        bucket, folder = self.world.storage.bucket(self.world.places.state), f"{self.prefix}/snapshot_id={snapshot_id}"
        bucket.blob(f"{folder}/date={TODAY}/part-0.parquet").upload_from_string(parquet_bytes(rows))
        bucket.blob(f"{folder}/{self.world.feed.landing.marker}").upload_from_string("")

    def backfill(self, *options: str, meanwhile: Callable[[], object] = lambda: None) -> int:
        """The command's exit status. `meanwhile`: called whenever the command waits for a minute."""
        feed = self.world.feed
        shutil.copytree(REPOSITORY / "dags" / "profiles", self._dags / "profiles", dirs_exist_ok=True)
        (self._dags / "feeds").mkdir(exist_ok=True)
        text = yaml.safe_dump(feed.model_dump(mode="json", exclude_defaults=True))
        (self._dags / "feeds" / f"{feed.feed}.yaml").write_text(text)
        arguments = ["backfill", feed.feed, "--archive", f"gs://{self.world.places.state}/{self.prefix}", *options]
        servers = {
            "DEDUP_CLONE_PROFILE": "local",
            "BIGQUERY_EMULATOR_HOST": self.world.bigquery._connection.API_BASE_URL,
            "STORAGE_EMULATOR_HOST": self.world.storage._connection.API_BASE_URL,
        }
        with patch.dict(os.environ, servers), patch("deploy.backfill.sleep", lambda seconds: meanwhile()):
            return main(arguments, self._dags)

    def publish_what_landed(self) -> list[str]:
        """Register and publish what has landed, as the DAGs do. Returns the names of the new deliveries."""
        names = register_all(self.world)
        for name in names:
            self.world.publish(name)
        return names
