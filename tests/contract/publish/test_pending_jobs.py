"""BigQuery jobs of a publish that are PENDING: the watchdog sees them wait, and the ledger counts the time."""

from __future__ import annotations

import threading
import time

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.contract.feed_state_reader import read_state
from tests.contract.new_feeds import new_feed

QUEUED_S = 2.0


def test_the_time_of_a_queued_load_is_seen_and_counted(clients: tuple[Storage, BigQuery]) -> None:
    world = FeedOnStandIn(new_feed("pending_"), *clients)
    spec = world.resolve(world.land(7, [row(7, 1)]))
    world.deduplicate(spec)
    assert read_state(world.services).pending_job is None
    fault = {"match": {"job_id": f"{spec.attempt}-load-1$"}, "effect": "queue", "seconds": QUEUED_S}
    world.add_fault(fault)
    load = threading.Thread(target=world.load, args=(spec,))
    load.start()
    seen = None
    for _ in range(100):
        seen = seen or read_state(world.services).pending_job
        time.sleep(0.02)
    load.join()
    assert seen is not None
    assert (seen.job_id.endswith(f"{spec.attempt}-load-1"), seen.is_statement) == (True, False)
    assert read_state(world.services).pending_job is None
    world.swap(spec, world.check(spec))
    record = world.commit(spec)
    assert record.lag_s
    assert QUEUED_S - 0.1 <= record.phases["queued"] <= record.lag_s
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)
