"""Rollback: an earlier generation's content as a new generation, and what later arrivals build on."""

from __future__ import annotations

import re

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError, LeaseHeld
from testkit import runs
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row

FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SECOND = [row(8, 1, 99), row(8, 4, 99)]
BOTH = expected(*SECOND, row(7, 2), row(7, 3, day=YESTERDAY))


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    """Two generations; the second is the one that operators regret."""
    world.publish(world.land(7, FIRST))
    world.publish(world.land(8, SECOND))
    return world


def steps_of(world: FeedOnStandIn, attempt: str) -> list[str]:
    """The steps of an attempt that made a BigQuery job on staging or target."""
    steps = [j.labels.get("dedup-clone-step") for j in world.jobs() if attempt in j.job_id]
    return sorted(step for step in steps if step)


def forget_time_travel(world: FeedOnStandIn, generation: int) -> None:
    """As after seven days: the time at which staging held the generation is of no use any more."""
    world.state.lose(f"attempts/{world.state.manifest(generation)['attempt']}/swap.json")


def delivery_of(world: FeedOnStandIn, snapshot_id: int) -> str:
    (name,) = [name for name in world.state.deliveries("arrivals") if name.startswith(f"{snapshot_id}-")]
    return name


def excluded(world: FeedOnStandIn) -> list[int]:
    return [delivery["snapshot_id"] for delivery in world.state.manifest()["excluded"]]


def test_a_rollback_restores_the_rows_under_a_new_generation_and_loads_nothing_within_time_travel(
    published: FeedOnStandIn,
) -> None:
    record = published.roll_back(1)
    assert published.rows() == expected(*FIRST)
    assert published.live() == "3"
    assert (record.generation, record.parent, record.restores, record.snapshot_id) == (3, 2, 1, 7)
    assert (record.reason, record.lag_s) == ("bad snapshot", None)
    assert published.state.lease is None
    assert steps_of(published, record.attempt) == ["swap"]
    # A replay by hand releases the excluded delivery.
    published.publish(delivery_of(published, 8), replay=True, run_id="manual", reason="it was right after all")
    assert published.rows() == BOTH
    assert excluded(published) == []


@pytest.mark.parametrize("by_files", [False, True])
def test_what_was_rolled_back_stays_out_until_it_is_delivered_again(published: FeedOnStandIn, by_files: bool) -> None:
    out = delivery_of(published, 8)
    waiting = published.land(9, [row(9, 2, 30)])  # was never live, so the rollback does not exclude it
    if by_files:
        forget_time_travel(published, 1)
    assert ("load" in steps_of(published, published.roll_back(1).attempt)) == by_files
    assert published.rows() == expected(*FIRST)
    assert "excluded by a rollback" in published.nothing_to_do(out)
    published.publish(waiting)
    assert published.rows() == expected(row(7, 1), row(9, 2, 30), row(7, 3, day=YESTERDAY))
    assert excluded(published) == [8]
    published.publish(published.land(8, [row(8, 1, 50)]))
    assert published.rows() == expected(row(8, 1, 50), row(9, 2, 30), row(7, 3, day=YESTERDAY))


def test_a_rollback_can_be_rolled_forward(published: FeedOnStandIn) -> None:
    published.roll_back(1)
    forward = runs.rollback(published, 2, run_id="forward").until("preview")
    assert f"No longer excluded: {delivery_of(published, 8)}." in forward.text
    forward.finish()
    assert published.rows() == BOTH
    assert excluded(published) == []
    published.publish(published.land(9, [row(9, 2, 30)]))
    assert published.rows() == expected(*SECOND, row(9, 2, 30), row(7, 3, day=YESTERDAY))


def test_neither_a_superseded_delivery_nor_what_a_correction_replaced_is_lost_or_comes_back(
    world: FeedOnStandIn,
) -> None:
    world.publish(world.land(7, FIRST))
    world.land(8, [row(8, 1, 11)])
    world.publish(world.land(8, [row(8, 1, 12)]))  # supersedes the one before
    world.publish(world.land(7, [row(7, 1, 5)]))  # corrects the first
    world.roll_back(1)
    world.publish(world.land(9, [row(9, 2, 30)]))
    assert world.rows() == expected(row(7, 1), row(9, 2, 30), row(7, 3, day=YESTERDAY))


def offered_instead_of(world: FeedOnStandIn, generation: int) -> list[int]:
    """The generations that the refusal of a rollback names."""
    with pytest.raises(ConfigurationError) as refused:
        world.roll_back(generation)
    return [int(number) for number in re.findall(r"(\d+) \(snapshot \d+\)", str(refused.value))]


def test_a_generation_without_its_manifest_keeps_no_other_from_being_restored(published: FeedOnStandIn) -> None:
    published.publish(published.land(9, [row(9, 2, 30)]))
    published.state.lose("manifests/00000001.json")
    assert offered_instead_of(published, 1) == [3, 2]
    published.roll_back(2)
    assert published.rows() == BOTH


def test_only_generations_with_time_travel_or_files_can_be_restored(published: FeedOnStandIn) -> None:
    published.publish(published.land(9, [row(9, 2, 30)]))
    assert offered_instead_of(published, 17) == [3, 2, 1]
    forget_time_travel(published, 1)
    published.state.lose(f"data/{published.state.manifest(1)['attempt']}")
    assert offered_instead_of(published, 1) == [3, 2]
    assert published.state.lease is None


def test_a_rollback_waits_for_the_first_publish_of_a_feed(world: FeedOnStandIn) -> None:
    world.resolve(world.land(7, [row(7, 1)]), run_id="publish")
    world.running.add("publish")
    with pytest.raises(LeaseHeld):
        runs.rollback(world, 1).until("preview")


def test_a_publish_and_a_rollback_keep_each_other_out(published: FeedOnStandIn) -> None:
    name = published.land(9, [row(9, 2, 30)])
    approved = runs.rollback(published, 1, run_id="late").until("preview")
    published.resolve(name, run_id="publish")
    published.running.add("publish")
    with pytest.raises(LeaseHeld):
        runs.rollback(published, 1).until("preview")
    with pytest.raises(LeaseHeld):
        approved.until("resolve")
    assert published.live() == "2"
    published.running = {"one", "other"}  # the publish is dead
    one, other = (runs.rollback(published, 1, run_id=run_id).until("preview") for run_id in ("one", "other"))
    one.until("resolve")
    with pytest.raises(LeaseHeld):
        other.until("resolve")
    with pytest.raises(LeaseHeld):
        published.resolve(name)
    one.finish()
    before = published.rows()
    with pytest.raises(ConfigurationError):  # another generation went live after it was approved
        other.until("resolve")
    assert (published.rows(), published.state.lease) == (before, None)


def test_the_preview_names_rows_dates_deliveries_and_what_comes_next(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 3, day=YESTERDAY)]))
    world.publish(world.land(8, [row(8, 1, 99), row(8, 4)]))
    waiting = world.land(9, [row(9, 2)])
    text = runs.rollback(world, 1).until("preview").text
    assert f"wrote no files: {TODAY}; -1 rows in all" in text
    assert "1 of 2 dates differ" in text
    assert f"Excluded until somebody replays them or they are delivered again: {delivery_of(world, 8)}." in text
    assert f"Waiting now: {waiting}." in text
    assert "a clone of staging as it was at" in text
    assert world.state.lease is None


def test_a_date_without_files_is_said_to_differ_perhaps(world: FeedOnStandIn) -> None:
    """An engine in SQL writes no files, and a correction may leave counts and update ids as they were."""
    for value in (10, 99):
        world.publish(world.land(7, [row(7, 1, value)]), engine=Engine.BIGQUERY)
    text = runs.rollback(world, 1).until("preview").text
    assert "1 of 1 dates differ, or may differ" in text
    assert "+0 rows in all" in text


def test_a_generation_is_loaded_from_its_files_although_somebody_dropped_staging(published: FeedOnStandIn) -> None:
    published.bigquery.delete_table(f"{published.places.dataset}.{published.feed.staging}")
    record = published.roll_back(1)
    assert published.rows() == expected(*FIRST)
    assert steps_of(published, record.attempt) == ["load", "swap"]
    published.publish(published.land(9, [row(9, 4)]))
    assert published.rows() == expected(*FIRST, row(9, 4))
