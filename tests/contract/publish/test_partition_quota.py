"""The check of BigQuery's quota of partition modifications counts what attempts left in the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dedup_clone.publish.records.attempt_records import read_check_results
from dedup_clone.publish.recovery import commit_or_discard
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, job_id, row


@pytest.mark.parametrize(
    ("hours", "found"),
    [
        (23, "4 in the last 24 hours, 2 of this publish"),
        pytest.param(25, "0 in the last 24 hours, 2 of this publish", marks=pytest.mark.exhaustive),
    ],
)
def test_partition_quota_counts_loads_of_24_hours_and_failed_ones(world: FeedOnStandIn, hours: int, found: str) -> None:
    """The quota refills over 24 hours, and failed loads count (optimize-load-jobs)."""
    world.publish(world.land(7, [row(7, 1), row(7, 2, day=YESTERDAY)]))
    for snapshot_id, loads in ((8, True), (9, False)):  # both fail, the second one before its load
        spec = world.resolve(world.land(snapshot_id, [row(snapshot_id, 1)]))
        if loads:
            world.dedup.run(spec.request_uri)
            world.load(spec)
        commit_or_discard(world.services, world.services.current.require_intent(spec.attempt))
    spec = world.resolve(world.land(10, [row(10, 1)]))
    world.dedup.run(spec.request_uri)
    world.load(spec)
    world.now = lambda: datetime.now(UTC) + timedelta(hours=hours)
    world.check(spec)
    results = read_check_results(world.services, spec.attempt, "before")
    assert [item.found for item in results.items if item.check == "partition_quota"] == [found]


@pytest.mark.exhaustive
def test_each_load_of_a_failed_attempt_counts(world: FeedOnStandIn) -> None:
    spec = world.resolve(world.land(7, [row(7, 1)]))
    world.dedup.run(spec.request_uri)
    world.services.current.record_jobs(spec.attempt, [job_id(spec, "load", number) for number in (2, 3)])
    world.load(spec)
    commit_or_discard(world.services, world.services.current.require_intent(spec.attempt))
    spec = world.resolve(world.land(8, [row(8, 1)]))
    world.dedup.run(spec.request_uri)
    world.load(spec)
    world.check(spec)
    results = read_check_results(world.services, spec.attempt, "before")
    found = [item.found for item in results.items if item.check == "partition_quota"]
    assert found == ["3 in the last 24 hours, 1 of this publish"]


def test_loads_of_single_dates_count_beside_the_load_of_the_table_that_follows_them(world: FeedOnStandIn) -> None:
    """A task that dies while it loads single dates is followed by one that loads the whole table."""
    spec = world.resolve(world.land(7, [row(7, 1)]))
    world.dedup.run(spec.request_uri)
    world.services.current.record_jobs(spec.attempt, [job_id(spec, f"load_{YESTERDAY:%Y%m%d}", 1)])
    world.load(spec)
    world.check(spec)
    results = read_check_results(world.services, spec.attempt, "before")
    found = [item.found for item in results.items if item.check == "partition_quota"]
    assert found == ["0 in the last 24 hours, 2 of this publish"]
