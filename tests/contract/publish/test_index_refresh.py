"""index.json: what the page shows follows every arrival, publish, failure and rollback."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.errors import DeliveryRefused, LostRace
from dedup_clone.publish.records import index_arrivals
from dedup_clone.publish.records.index_refresh import refresh_index, try_refresh_index
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.publish.resolve import resolve
from dedup_clone.state.index import DeliveryState, Index, IndexFile, published_records
from dedup_clone.state.ledger import Outcome
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row


def index_of(world: FeedOnStandIn) -> Index:
    known = IndexFile(world.services.store, world.feed.feed).read().index
    assert known is not None
    return known


def states(world: FeedOnStandIn) -> dict[str, DeliveryState]:
    return {a.delivery.name: a.state for a in index_of(world).arrivals}


def test_an_arrival_waits_in_the_index_before_anything_is_published(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1)])
    refresh_index(world.services)
    index = index_of(world)
    assert states(world) == {name: DeliveryState.WAITING}
    assert (index.generation, index.dates, index.records, index.time_travel) == (None, (), (), None)
    assert (index.arrivals[0].files, index.arrivals[0].dates, index.sla_minutes) == (1, str(TODAY), 60)


def test_the_dates_of_older_deliveries_are_left_out_before_those_of_newer_ones(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a delivery whose dates have many gaps is listed with all of them."""
    days = [TODAY - timedelta(days=number) for number in range(0, 240, 2)]
    for snapshot_id in (7, 8):
        world.land_files(snapshot_id, {f"date={day}/a.parquet": b"x" for day in days})
    refresh_index(world.services)
    text = ", ".join(map(str, reversed(days)))
    assert [a.dates for a in index_of(world).arrivals] == [text, text]
    monkeypatch.setattr(index_arrivals, "MAX_DATES_TEXT", len(text))
    refresh_index(world.services)
    assert [a.dates for a in index_of(world).arrivals] == [None, text]


def test_a_publish_adds_its_record_its_partitions_and_its_check_results(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1), row(7, 2)])
    record = world.publish(name)
    index = index_of(world)
    assert index.records == (record,)
    assert states(world) == {name: DeliveryState.PUBLISHED}
    assert (index.generation, [d.rows for d in index.dates]) == (1, [2])
    assert {v.phase for v in index.checks[0].verdicts} == {"before", "after"}
    assert index.checks[0].attempt == record.attempt
    assert index.time_travel is not None
    (generation,) = index.generations
    assert (generation.generation, generation.has_files) == (1, True)
    assert generation.checked_at is not None
    assert generation.checked_at.microsecond % 1000 == 0  # a clone's time is shown in milliseconds
    assert index.time_travel.staging_created_at < generation.checked_at


def test_a_refused_delivery_is_reported_with_its_reason(world: FeedOnStandIn) -> None:
    world.dedup.refused_ids = {7}
    name = world.land(7, [row(7, 1)])
    with pytest.raises(DeliveryRefused):
        world.deduplicate(world.resolve(name))
    index = index_of(world)
    assert states(world) == {name: DeliveryState.REFUSED}
    assert "bad row in [a.parquet]" in index.arrivals[0].reason
    assert index.arrivals[0].refused_at is not None
    assert ([f.outcome for f in index.failures], index.records) == ([Outcome.REFUSED], ())


@pytest.mark.exhaustive
def test_a_failed_attempt_leaves_its_check_results_and_its_delivery_waits(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    name = world.land(8, [row(8, 1)])
    spec = world.resolve(name)
    world.deduplicate(spec)
    world.load(spec)
    world.check(spec)
    commit_or_discard(world.services, world.services.current.require_intent(spec.attempt))
    index = index_of(world)
    assert states(world)[name] is DeliveryState.WAITING
    assert [f.attempt for f in index.failures] == [spec.attempt]
    assert index.checks[-1].attempt == spec.attempt
    assert {v.phase for v in index.checks[-1].verdicts} == {"before"}
    assert index.generation == 1


@pytest.mark.exhaustive
def test_after_a_rollback_what_it_took_out_is_excluded(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    name = world.land(8, [row(8, 1)])
    world.publish(name)
    world.roll_back(1)
    index = index_of(world)
    assert states(world)[name] is DeliveryState.EXCLUDED
    assert [d.name for d in index.excluded] == [name]
    assert (index.generation, index.generations[-1].restores) == (3, 1)


@pytest.mark.exhaustive
def test_an_older_delivery_of_an_id_is_superseded(world: FeedOnStandIn) -> None:
    older = world.land(7, [row(7, 1)])
    newer = world.land(7, [row(7, 1, 21)])
    world.publish(newer)
    assert states(world) == {older: DeliveryState.SUPERSEDED, newer: DeliveryState.PUBLISHED}


def test_an_index_that_is_gone_or_unreadable_is_made_again_from_the_other_records(world: FeedOnStandIn) -> None:
    for snapshot_id in (7, 8):
        world.publish(world.land(snapshot_id, [row(snapshot_id, 1)]))
    before = index_of(world)
    blob = world.storage.bucket("state").blob(world.services.layout.index)
    for spoil in (blob.delete, lambda: blob.upload_from_string("{}")):
        spoil()
        assert published_records(world.services.store, world.feed.feed) == list(before.records)
        refresh_index(world.services)
        again = index_of(world)
        assert (again.records, again.dates, again.generations) == (before.records, before.dates, before.generations)
        assert again.arrivals == before.arrivals


def test_two_writers_lose_nothing_of_each_other(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arrival is registered while a commit writes the index: the later one derives it again."""
    world.publish(world.land(7, [row(7, 1)]))
    slow, write = world.services, IndexFile.write
    late = world.land(9, [row(9, 1)])

    def write_after_another(file: IndexFile, index: Index, **expected: Any) -> None:
        monkeypatch.setattr(IndexFile, "write", write)
        world.publish(world.land(8, [row(8, 1)]))
        write(file, index, **expected)

    monkeypatch.setattr(IndexFile, "write", write_after_another)
    refresh_index(slow)
    assert [r.generation for r in index_of(world).records] == [1, 2]
    assert states(world)[late] is DeliveryState.PUBLISHED  # included with 8


@pytest.mark.exhaustive
def test_an_attempt_whose_index_could_not_be_written_is_reported_by_the_next_refresh(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is updated after the commit, so a failure of the page leaves a publish that succeeded."""
    world.publish(world.land(7, [row(7, 1)]))

    def lose(file: IndexFile, index: Index, **expected: Any) -> None:
        raise LostRace("somebody else was quicker")

    with monkeypatch.context() as patch:
        patch.setattr(IndexFile, "write", lose)
        record = world.publish(world.land(8, [row(8, 1)]))
    current = world.services.current.read()
    assert (current.generation, current.intent) == (2, None)
    assert published_records(world.services.store, world.feed.feed)[-1] == record
    refresh_index(world.services)
    index = index_of(world)
    assert (index.generation, index.records[-1], index.checks[-1].attempt) == (2, record, record.attempt)


def test_a_failure_to_refresh_the_index_does_not_fail_the_publish(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(file: IndexFile, index: Index, **expected: Any) -> None:
        raise LostRace("somebody else was quicker")

    monkeypatch.setattr(IndexFile, "write", lose)
    try_refresh_index(world.services)
    name = world.land(7, [row(7, 1)])
    spec = resolve(world.services, world.publish_request(name))
    assert not isinstance(spec, str)
    commit_or_discard(world.services, world.services.current.require_intent(spec.attempt))
    assert world.services.current.read().intent is None
