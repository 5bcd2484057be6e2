"""Rows that somebody streams into staging or target: the publish waits for BigQuery to flush them, or stops.

The clock of the stand-in is moved, so these tests have one of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish.streamed_rows import reason_to_wait
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from testkit.server_clients import open_clients
from tests.contract.new_feeds import new_feed
from tests.shared.write_api_client import stream_rows

FLUSHED_AFTER = timedelta(minutes=90)


@pytest.fixture(scope="module")
def own_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    with open_clients(tmp_path_factory.mktemp("streamed")) as clients:
        yield clients


@pytest.mark.parametrize("table", ["staging", pytest.param("target", marks=pytest.mark.exhaustive)])
def test_streamed_rows_are_waited_for_and_named(own_clients: tuple[Storage, BigQuery], table: str) -> None:
    world = FeedOnStandIn(new_feed("streamed_"), *own_clients)
    world.publish(world.land(7, [row(7, 1)]))
    name = {"staging": world.feed.staging, "target": world.feed.target}[table]
    spec = world.resolve(world.land(8, [row(8, 1), row(8, 2)]))
    world.deduplicate(spec)
    world.load(spec)
    streamed = {**row(7, 9), "date": TODAY.isoformat()}
    stream_rows(world.bigquery, f"warehouse.{name}", [streamed])
    reason = reason_to_wait(world.services, spec)
    assert reason
    assert reason.startswith(f"{name}: about 1 streamed rows, the oldest 0:00:0")
    with pytest.raises(CheckFailed, match=rf"streaming_buffer: \[{name}: about 1 streamed rows"):
        world.check(spec)
    world.pass_time(FLUSHED_AFTER)
    assert reason_to_wait(world.services, spec) is None
    if table == "staging":  # the flushed row is in staging now, which is loaded again
        with pytest.raises(CheckFailed, match=r"staging_rows"):
            world.check(spec)
    else:  # the swap replaces it
        world.swap(spec, world.check(spec))
        world.commit(spec)
        assert [found[1] for found in world.rows()] == [1, 2]
