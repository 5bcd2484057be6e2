"""Rollback: an earlier generation's content as a new generation, and what later arrivals build on."""

from __future__ import annotations

import pytest

from dedup_clone.contract.errors import ConfigurationError, LeaseHeld, RollbackRefused
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.resolve import resolve
from dedup_clone.publish.rollback.resolve_rollback import RollbackRequest, resolve_rollback, restorable_generations
from dedup_clone.state.ledger import Outcome
from testkit.feed_on_stand_in import ROLLBACK_DAG, YESTERDAY, FeedOnStandIn, expected, row

FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SECOND = [row(8, 1, 99), row(8, 4, 99)]


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    """Two generations; the second is the one that operators regret."""
    world.publish(world.land(7, FIRST))
    world.publish(world.land(8, SECOND))
    return world


def steps_of(world: FeedOnStandIn, attempt: str) -> list[str]:
    """The steps of an attempt that made a BigQuery job on staging or target."""
    steps = [j.labels.get("dedup_clone_step") for j in world.bigquery.list_jobs() if attempt in j.job_id]
    return sorted(step for step in steps if step)


def forget_time_travel(world: FeedOnStandIn, generation: int) -> None:
    """As after seven days: the time at which staging held the generation is of no use any more."""
    attempt = world.services.manifests.read(generation).attempt
    world.storage.bucket("state").blob(world.services.layout.swap_spec(attempt)).delete()


def test_a_rollback_restores_the_rows_under_a_new_generation_and_loads_nothing_within_time_travel(
    published: FeedOnStandIn,
) -> None:
    record = published.roll_back(1)
    assert published.rows() == expected(*FIRST)
    assert published.live() == "3"
    assert (record.generation, record.parent, record.restores, record.snapshot_id) == (3, 2, 1, 7)
    assert (record.reason, record.lag_s) == ("bad snapshot", None)
    assert published.services.current.read().intent is None
    assert steps_of(published, record.attempt) == ["swap"]

    # A replay by hand releases the excluded delivery.
    (excluded,) = [d.name for d in published.services.arrivals.deliveries() if d.snapshot_id == 8]
    published.publish(excluded, replay=True, run_id="manual", reason="it was right after all")
    assert published.rows() == expected(*SECOND, row(7, 2), row(7, 3, day=YESTERDAY))
    assert published.services.manifests.read(4).excluded == ()


def test_without_time_travel_the_files_of_the_generation_are_loaded(published: FeedOnStandIn) -> None:
    forget_time_travel(published, 1)
    record = published.roll_back(1)
    assert published.rows() == expected(*FIRST)
    assert steps_of(published, record.attempt) == ["load", "swap"]


@pytest.mark.parametrize("by_files", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_what_was_rolled_back_stays_out_until_it_is_delivered_again(published: FeedOnStandIn, by_files: bool) -> None:
    (excluded,) = [d.name for d in published.services.arrivals.deliveries() if d.snapshot_id == 8]
    if by_files:
        forget_time_travel(published, 1)
    waiting = published.land(9, [row(9, 2, 30)])  # was never live, so the rollback does not exclude it
    published.roll_back(1)
    answer = resolve(published.services, published.publish_request(excluded))
    assert "excluded by a rollback: replay it by hand" in str(answer)
    published.publish(waiting)
    assert published.rows() == expected(row(7, 1), row(9, 2, 30), row(7, 3, day=YESTERDAY))
    assert [d.snapshot_id for d in published.services.manifests.read(4).excluded] == [8]
    published.publish(published.land(8, [row(8, 1, 50)]))
    assert published.rows() == expected(row(8, 1, 50), row(9, 2, 30), row(7, 3, day=YESTERDAY))


def test_a_rollback_can_be_rolled_forward(published: FeedOnStandIn) -> None:
    before = published.rows()
    published.roll_back(1)
    published.roll_back(2, run_id="forward")
    assert published.rows() == before
    assert published.services.manifests.read(4).excluded == ()
    published.publish(published.land(9, [row(9, 2, 30)]))
    assert published.rows() == expected(*SECOND, row(9, 2, 30), row(7, 3, day=YESTERDAY))


@pytest.mark.exhaustive
def test_a_superseded_delivery_does_not_come_back_by_a_rollback(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    world.land(8, [row(8, 1, 11)])
    world.publish(world.land(8, [row(8, 1, 12)]))  # supersedes the one before
    world.roll_back(1)
    world.publish(world.land(9, [row(9, 2, 30)]))
    assert world.rows() == expected(row(7, 1), row(9, 2, 30), row(7, 3, day=YESTERDAY))


@pytest.mark.exhaustive
def test_a_correction_that_is_rolled_back_leaves_what_it_corrected(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    world.publish(world.land(7, [row(7, 1, 5)]))
    world.roll_back(1)
    world.publish(world.land(8, [row(8, 4)]))
    assert world.rows() == expected(*FIRST, row(8, 4))


@pytest.mark.parametrize("damage", [None, '{"feed": '])
def test_a_generation_without_its_manifest_keeps_no_other_from_being_restored(
    published: FeedOnStandIn, damage: str | None
) -> None:
    published.publish(published.land(9, [row(9, 2, 30)]))
    store, name = published.services.store, published.services.layout.manifest(1)
    store.delete_prefix(name) if damage is None else store.put(name, damage)
    assert [r.manifest.generation for r in restorable_generations(published.services)] == [3, 2]
    published.roll_back(2)
    assert published.rows() == expected(*SECOND, row(7, 2), row(7, 3, day=YESTERDAY))


def test_a_publish_excludes_a_rollback_while_it_runs(published: FeedOnStandIn) -> None:
    name = published.land(9, [row(9, 2, 30)])
    published.resolve(name)
    published.running.add(f"run-{name}")
    with pytest.raises(LeaseHeld, match=f"run-{name}.*tries again by itself"):
        published.preview(1)
    with pytest.raises(LeaseHeld, match=f"run-{name}"):
        resolve_rollback(published.services, RollbackRequest(ROLLBACK_DAG, "back", 1, 2, ""))
    assert published.live() == "2"
    published.running.clear()  # the run is dead, and its lease keeps nobody from seeing the difference
    assert published.preview(1).live_generation == 2
    assert published.roll_back(1).restores == 1


@pytest.mark.exhaustive
def test_a_rollback_is_refused_when_another_generation_went_live_after_it_was_approved(
    published: FeedOnStandIn,
) -> None:
    approved = RollbackRequest(ROLLBACK_DAG, "back", 1, published.preview(1).live_generation, "")
    published.publish(published.land(9, [row(9, 2, 30)]))
    before = published.rows()
    with pytest.raises(RollbackRefused, match=r"\[3\] .* is live by now, expected \[2\].*2 \(snapshot 8\), 1 \("):
        resolve_rollback(published.services, approved)
    assert published.rows() == before
    assert published.services.current.read().intent is None


def test_of_two_rollbacks_at_once_one_is_made_and_the_other_refused_as_is_a_publish(published: FeedOnStandIn) -> None:
    one, other = (RollbackRequest(ROLLBACK_DAG, name, 1, published.preview(1).live_generation, "") for name in "ab")
    published.running |= {"a", "b"}
    spec = resolve_rollback(published.services, one)
    with pytest.raises(LeaseHeld, match=r"a.*rollback, generation 3"):
        resolve_rollback(published.services, other)
    with pytest.raises(LeaseHeld, match=r"a.*rollback, generation 3"):
        published.resolve(published.land(9, [row(9, 2, 30)]))
    published.swap(spec, published.check(spec))
    published.commit(spec)
    with pytest.raises(RollbackRefused, match=r"\[3\] .* is live by now"):
        resolve_rollback(published.services, other)
    assert published.live() == "3"


@pytest.mark.parametrize("swapped", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_a_rollback_that_died_is_recovered(published: FeedOnStandIn, swapped: bool) -> None:
    before = published.rows()
    spec = resolve_rollback(published.services, RollbackRequest(ROLLBACK_DAG, "back", 1, 2, "bad"))
    if swapped:
        published.swap(spec, published.check(spec))
    recover(published.services, dag_id="other", run_id="other")
    assert published.rows() == (expected(*FIRST) if swapped else before)
    assert published.services.current.read().generation == (3 if swapped else 2)
    (record,) = [r for r in published.services.ledger.read_last(9) if r.generation == 3]
    assert record.restores == 1
    assert record.outcome is (Outcome.PUBLISHED if swapped else Outcome.FAILED)


@pytest.mark.exhaustive
def test_a_generation_that_cannot_be_restored_is_refused_with_those_that_can(published: FeedOnStandIn) -> None:
    published.publish(published.land(9, [row(9, 2, 30)]))
    with pytest.raises(
        ConfigurationError, match=r"Choose one of: 3 \(snapshot 9\), 2 \(snapshot 8\), 1 \(snapshot 7\)"
    ):
        published.roll_back(17)
    assert published.services.current.read().intent is None


@pytest.mark.exhaustive
def test_generations_without_time_travel_and_files_are_not_offered(published: FeedOnStandIn) -> None:
    forget_time_travel(published, 1)
    folder = published.services.manifests.read(1).data_folder
    assert folder
    published.services.store.delete_prefix(folder.removeprefix(published.services.store.uri("")))
    assert [r.manifest.generation for r in restorable_generations(published.services)] == [2]
    published.publish(published.land(9, [row(9, 2, 30)]))
    assert [r.manifest.generation for r in restorable_generations(published.services)] == [3, 2]
