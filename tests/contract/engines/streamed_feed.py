"""Publishes a feed of engine `cdc` and computes the expected table; kills load tasks while they stream rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.settings.feed import CdcSettings
from testkit import runs, step_faults
from testkit.dedup_job import Row
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY, YESTERDAY, row
from testkit.killed_writes import Killed
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import PRODUCTS

Clients = tuple[Storage, BigQuery]
OLDEST = TODAY - timedelta(days=PRODUCTS.retention_days - 1)


class StreamedFeed(FeedAgainstOracle):
    """A feed of engine `cdc`. `expected`: the oracle's table."""

    expected: OracleState

    def land_expected(self, snapshot_id: int, rows: Sequence[Row]) -> str:
        """Land the snapshot, and apply it to the expected table. Returns the delivery's name."""
        self.expected = self.expected.apply([OracleDelivery(snapshot_id, rows)], OLDEST)
        return self.land(snapshot_id, rows)

    def publish_expected(self, snapshot_id: int, rows: Sequence[Row], **changes: Any) -> Any:
        """Land and publish the snapshot, and assert that target is the expected table. `changes`: see `publish`."""
        record = self.publish(self.land_expected(snapshot_id, rows), **changes)
        self.assert_equal(self.expected)
        return record

    def finish(self, run: runs.Run) -> None:
        """Finish the run, and assert that target is the expected table."""
        run.finish()
        self.assert_equal(self.expected)


def feed_with(clients: Clients, table: Any, **cdc: Any) -> StreamedFeed:
    """A new feed of engine `cdc` with this table. `cdc`: settings of the feed file's section of that name."""
    settings = CdcSettings(**{"max_changed_share": 1.0, **cdc})
    world = StreamedFeed(clients, feed_with_table(table, Engine.CDC).model_copy(update={"cdc": settings}))
    world.expected = OracleState(world.oracle_table, last_changed=True)
    return world


def snapshot(number: int) -> list[Row]:
    """Three rows: product 1 has a new value in each snapshot, product 10 + `number` is new, product 2 never changes."""
    return [row(number, 1, number), row(number, 10 + number), row(number, 2, day=YESTERDAY)]


def staging_state(world: StreamedFeed) -> tuple[str, bool]:
    """Whether CURRENT says what staging holds, and whether rows are streamed."""
    staging = world.state.read("CURRENT")["staging"]
    return "loaded" if staging["holds"] else "loading", bool(staging["writer"])


def load_jobs(world: StreamedFeed, record: Any) -> list[str]:
    """The load jobs of the attempt, but for that of its row in the ledger table."""
    listed = [job for job in world.jobs() if job.job_type == "load"]
    return [job.job_id for job in listed if record.attempt in job.job_id and "-ledger-" not in job.job_id]


def load_until_killed(run: runs.Run, rows: int) -> None:
    """Run the load step, whose process is killed after `rows` rows, once they are sent; at the latest after all."""
    with step_faults.writer_killed_after(rows), pytest.raises(Killed):
        run.step("load")


def killed_load(world: StreamedFeed, name: str, rows: int) -> runs.Run:
    """Publish the delivery `name` up to its load step, which is killed after `rows` rows."""
    run = runs.publish(world, name).until("dedup")
    load_until_killed(run, rows)
    assert staging_state(world) == ("loading", True)
    return run
