"""Publishes with a naive protocol, to prove that each scenario of test_scenarios.py needs the real one.

The naive protocol loads the rows that it computed into staging date by date, clones staging as it is at that time, and
records the current rows afterwards. It has no lease and no generations, and reads landed files again when it loads.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow.parquet as pq
from google.cloud.bigquery import LoadJobConfig, SourceFormat, WriteDisposition

from testkit import operations
from testkit.fake_dedup_job import Row, parquet_bytes
from testkit.feed_on_stand_in import FeedOnStandIn

Key = tuple[Any, ...]


@dataclass
class NaiveAttempt:
    """One publish.

    `name`: its delivery's. `rows`: the table that it computed. `delivered_keys`: the keys whose rows in it are those of
    the delivery. `dates`: the dates to load.
    """

    name: str
    rows: dict[Key, Row]
    delivered_keys: set[Key]
    dates: set[date]
    jobs: list[Any] = field(default_factory=list)


class NaiveSteps:
    """The steps that scenarios call (Steps in test_scenarios.py).

    `current`: the rows that the last commit recorded. `swapped_at`: the time of each swap's clone.
    """

    def __init__(self, world: FeedOnStandIn) -> None:
        self.world = world
        self.current: dict[Key, Row] = {}
        self.swapped_at: list[str] = []
        operations.create_table(world, world.feed.staging)

    def begin(self, name: str) -> NaiveAttempt:
        landed = self._landed(name)
        rows = dict(self.current)
        delivered_keys = set()
        for row in landed:
            current_row = rows.get(_key(row))
            if current_row is None or _rank(row) > _rank(current_row):
                rows[_key(row)] = row
                delivered_keys.add(_key(row))
        return NaiveAttempt(name, rows, delivered_keys, {row["date"] for row in landed})

    def prepare_load(self, attempt: NaiveAttempt) -> None:
        """Nothing records the job."""

    def start_load(self, attempt: NaiveAttempt) -> None:
        """Start the load jobs, and do not wait for them."""
        landed_now = {_key(row): row for row in self._landed(attempt.name) if _key(row) in attempt.delivered_keys}
        for day in sorted(attempt.dates):
            rows = [landed_now.get(key, row) for key, row in attempt.rows.items() if row["date"] == day]
            config = LoadJobConfig(
                source_format=SourceFormat.PARQUET, write_disposition=WriteDisposition.WRITE_TRUNCATE_DATA
            )
            destination = f"local-dev.warehouse.{self.world.feed.staging}${day:%Y%m%d}"
            content, job_id = parquet_bytes(rows), f"{attempt.name}-{day}-load"
            attempt.jobs.append(
                self.world.bigquery.load_table_from_file(
                    io.BytesIO(content), destination, size=len(content), job_config=config, job_id=job_id
                )
            )

    def wait_for_load(self, attempt: NaiveAttempt) -> None:
        for job in attempt.jobs:
            job.result()

    def check(self, attempt: NaiveAttempt) -> None:
        ((count,),) = self.world.query(f"SELECT COUNT(*) FROM .{self.world.feed.staging}")
        assert count >= len(attempt.rows)

    def swap(self, attempt: NaiveAttempt) -> None:
        self.world.query(f"CREATE OR REPLACE TABLE .{self.world.feed.target} CLONE .{self.world.feed.staging}")
        target = self.world.bigquery.get_table(f"warehouse.{self.world.feed.target}")
        self.swapped_at.append(target.to_api_repr()["cloneDefinition"]["cloneTime"])

    def commit(self, attempt: NaiveAttempt) -> None:
        self.current = attempt.rows

    def publish(self, name: str) -> None:
        attempt = self.begin(name)
        self.start_load(attempt)
        self.wait_for_load(attempt)
        self.check(attempt)
        self.swap(attempt)
        self.commit(attempt)

    def roll_back(self, generation: int) -> None:
        moment = self.swapped_at[generation - 1]
        self.world.query(
            f"CREATE OR REPLACE TABLE .{self.world.feed.target} CLONE .{self.world.feed.staging} "
            f"FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}'"
        )

    def _landed(self, name: str) -> list[Row]:
        arrival = self.world.state.read(f"arrivals/{name}.json")
        bucket = self.world.storage.bucket(arrival["bucket"])
        contents = [bucket.blob(found["name"]).download_as_bytes() for found in arrival["objects"]]
        return [row for content in contents for row in pq.read_table(io.BytesIO(content)).to_pylist()]


def _key(row: Row) -> Key:
    return (row["date"], row["product_id"], row["store_id"], row["attribute_id"])


def _rank(row: Row) -> tuple[int, int]:
    """Of two rows of a key the one with the higher rank wins."""
    return (row["update_id"], row["attr_value"])
