"""The publish protocol step by step: what readers see, the lease, what a crash leaves, and its recovery."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.api_core.exceptions import BadRequest

from dedup_clone.checks.check_result import Level
from dedup_clone.contract.errors import CheckFailed, DeliveryRefused, LeaseHeld, LostRace, OutcomeUnknown
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.prune import prune
from dedup_clone.publish.recovery import commit_or_discard, recover
from dedup_clone.publish.resolve import resolve
from dedup_clone.state.index import IndexFile
from dedup_clone.state.ledger import Outcome
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row

FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SECOND = [row(8, 1, 21), row(8, 4), row(8, 3, day=YESTERDAY)]  # 1 changed, 2 missing, 4 new, 3 equal
BOTH = [row(8, 1, 21), row(7, 2), row(8, 3, day=YESTERDAY), row(8, 4)]


def test_a_publish_is_a_labelled_clone_that_reads_no_table_data_and_keeps_what_the_snapshot_lacks(
    world: FeedOnStandIn,
) -> None:
    cost = world.publish(world.land(7, FIRST)).cost
    assert world.rows() == expected(*FIRST)
    assert cost is not None
    assert cost.table_bytes_read == 0
    assert cost.query_usd < 0.001
    target = world.services.warehouse.table(world.feed.target)
    assert target is not None
    assert (target.clone_of, target.expiration_days) == (world.feed.staging, 730)
    assert target.labels["dedup_clone_generation"] == "1"
    assert target.labels["dedup_clone_snapshot"] == "7"
    assert target.labels["dedup_clone_manifest"] == world.services.manifests.read(1).digest
    record = world.publish(world.land(8, SECOND))
    assert world.rows() == expected(*BOTH)
    assert (record.rows, record.new_rows, record.changed_rows, record.kept_rows) == (4, 1, 1, 1)
    assert record.lag_s is not None
    assert record.lag_s > 0
    again, results = commit_attempt(world.services, record.attempt)  # the task is tried again, and reports the same
    assert again == record
    assert results.phase == "after"
    assert [r.generation for r in world.services.ledger.read_last(9)] == [1, 2]


def test_waiting_deliveries_are_folded_in_one_publish(world: FeedOnStandIn) -> None:
    first, second = world.land(7, FIRST), world.land(8, SECOND)
    record = world.publish(first)
    assert [d.name for d in record.deliveries] == [first, second]
    assert world.rows() == expected(*BOTH)
    answer = resolve(world.services, world.publish_request(second))
    assert answer == f"Delivery [{second}] is part of generation 1 already."


def test_an_older_delivery_of_an_id_is_superseded(world: FeedOnStandIn) -> None:
    first = world.land(7, [row(7, 1, 50)])
    second = world.land(7, [row(7, 1, 40)])
    assert "superseded by a later delivery" in str(resolve(world.services, world.publish_request(first)))
    world.publish(second)
    assert world.rows() == expected(row(7, 1, 40))
    assert "later delivery of snapshot 7" in str(resolve(world.services, world.publish_request(first)))


@pytest.mark.exhaustive
def test_a_replay_of_a_published_snapshot_changes_no_row(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    second = world.land(8, SECOND)
    world.publish(second)
    before = world.rows()
    world.publish(second, replay=True, run_id="manual", reason="to be sure")
    assert world.rows() == before
    assert world.live() == "3"


def test_a_live_run_excludes_others(world: FeedOnStandIn) -> None:
    first = world.land(7, FIRST)
    world.resolve(first)
    world.running.add(f"run-{first}")
    with pytest.raises(LeaseHeld, match=f"run-{first}"):
        resolve(world.services, world.publish_request(world.land(8, SECOND)))


@pytest.mark.parametrize(
    "died_after",
    ["check", *(pytest.param(step, marks=pytest.mark.exhaustive) for step in ("resolve", "dedup", "load"))],
)
def test_a_run_that_died_before_its_swap_is_discarded(world: FeedOnStandIn, died_after: str) -> None:
    world.publish(world.land(7, FIRST))
    spec = world.resolve(world.land(8, SECOND))
    if died_after != "resolve":
        world.dedup.run(spec.request_uri)
    if died_after in ("load", "check"):
        world.load(spec)
    if died_after == "check":
        world.check(spec)
    third = world.land(9, [row(9, 1, 30)])
    record = world.publish(third)
    assert (record.generation, record.parent) == (3, 1)
    assert [d.snapshot_id for d in record.deliveries] == [8, 9]
    assert world.rows() == expected(row(9, 1, 30), row(7, 2), row(8, 3, day=YESTERDAY), row(8, 4))


def test_a_crash_between_swap_and_commit_is_recovered_by_the_next_run(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    spec = world.resolve(world.land(8, SECOND))
    world.dedup.run(spec.request_uri)
    world.load(spec)
    world.swap(spec, world.check(spec))
    recover(world.services, dag_id="other", run_id="other")
    world.write_reporting_tables()
    sql = f"SELECT generation, snapshot_id FROM warehouse.dedup_clone_status WHERE feed = '{world.feed.feed}'"
    assert [tuple(r.values()) for r in world.bigquery.query_and_wait(sql)] == [(2, 8)]
    record = world.publish(world.land(9, [row(9, 5)]))
    assert (record.generation, record.parent) == (3, 2)
    assert [r.generation for r in world.services.ledger.read_last(9)] == [1, 2, 3]
    assert world.rows() == expected(*BOTH, row(9, 5))


def test_checks_that_are_repeated_after_the_swap_keep_the_time_of_the_swap(world: FeedOnStandIn) -> None:
    """As in a run that was marked failed between swap and commit and is cleared from `check_staging`."""
    world.publish(world.land(7, FIRST))
    spec, swap = world.publish_to_check(world.land(8, SECOND))
    world.swap(spec, swap)
    assert world.check(spec) == swap  # the swap task then reuses the job that has swapped
    record, after = commit_attempt(world.services, spec.attempt)
    assert [str(item) for item in after.items if item.level is not Level.PASS] == []
    assert record.outcome is Outcome.PUBLISHED
    assert world.rows() == expected(*BOTH)


def test_checks_that_are_repeated_after_a_failed_swap_give_the_next_one_their_own_time(world: FeedOnStandIn) -> None:
    spec, swap = world.publish_to_check(world.land(7, FIRST))
    with pytest.raises(BadRequest):
        world.swap(spec, replace(swap, parent="5"))
    again = world.check(spec)
    assert again.checked_at > swap.checked_at
    world.swap(spec, again, number=2)
    assert {item.level for item in commit_attempt(world.services, spec.attempt)[1].items} == {Level.PASS}


def test_an_attempt_that_never_swapped_cannot_be_committed(world: FeedOnStandIn) -> None:
    spec = world.resolve(world.land(7, FIRST))
    world.dedup.run(spec.request_uri)
    world.load(spec)
    world.check(spec)
    world.bigquery.query_and_wait(f"CREATE TABLE warehouse.{world.feed.target} (x INT64)")
    with pytest.raises(OutcomeUnknown, match="the swap did not happen"):
        world.commit(spec)


def test_every_attempt_leaves_one_record_that_says_how_it_ended(world: FeedOnStandIn) -> None:
    world.resolve(world.land(7, FIRST))  # dies here
    world.dedup.refused_ids = {8}
    world.publish(world.land(9, [row(9, 1)]))
    world.dedup.refused_ids = {10}
    spec = world.resolve(world.land(10, [row(10, 1)]))
    with pytest.raises(DeliveryRefused):
        world.deduplicate(spec)
    records = world.services.ledger.read_last(9)
    assert [(r.generation, r.outcome) for r in records] == [
        (1, Outcome.FAILED),
        (2, Outcome.PUBLISHED),
        (3, Outcome.REFUSED),
    ]
    assert records[0].reason == "ended before its dedup had a result"
    assert "1 bad row" in records[2].reason


def test_a_failed_run_cleans_up_by_itself_what_it_left(world: FeedOnStandIn) -> None:
    name = world.land(7, FIRST)
    spec = world.resolve(name)
    intent = world.services.current.read().intent
    assert intent is not None
    assert not commit_or_discard(world.services, intent)
    assert world.services.current.read().intent is None
    with pytest.raises(LostRace, match="Clear the run from its first task"):
        world.check(spec)


def test_a_failed_attempt_leaves_no_data(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    for snapshot_id in (8, 9):
        spec = world.resolve(world.land(snapshot_id, [row(snapshot_id, 1)]))
        world.dedup.run(spec.request_uri)
        intent = world.services.current.require_intent(spec.attempt)
        assert not commit_or_discard(world.services, intent)
    left = world.services.store.folders(world.services.layout.data)
    assert [f.split("/")[-2][:8] for f in left] == ["00000001"]


def test_the_swap_refuses_what_it_was_not_built_on(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    spec = world.resolve(world.land(8, SECOND))
    world.dedup.run(spec.request_uri)
    world.load(spec)
    swap = world.check(spec)
    world.bigquery.query_and_wait(
        f"ALTER TABLE warehouse.{world.feed.target} SET OPTIONS (labels = [('dedup_clone_generation', '99')])"
    )
    with pytest.raises(BadRequest, match="somebody else published"):
        world.swap(spec, swap)
    assert world.rows() == expected(*FIRST)


def test_a_foreign_load_between_load_and_check_stops_the_publish(world: FeedOnStandIn) -> None:
    spec = world.resolve(world.land(7, FIRST))
    world.dedup.run(spec.request_uri)
    world.load(spec)
    world.bigquery.query_and_wait(
        f"INSERT INTO warehouse.{world.feed.staging} (date, product_id) VALUES (CURRENT_DATE(), 9)"
    )
    with pytest.raises(CheckFailed, match=r"staging_rows.*3 rows, expected 2"):
        world.check(spec)
    assert world.live() is None


def test_a_foreign_load_between_check_and_swap_is_not_published(world: FeedOnStandIn) -> None:
    spec = world.resolve(world.land(7, FIRST))
    world.dedup.run(spec.request_uri)
    world.load(spec)
    swap = world.check(spec)
    world.bigquery.query_and_wait(
        f"INSERT INTO warehouse.{world.feed.staging} (date, product_id) VALUES (CURRENT_DATE(), 9)"
    )
    world.swap(spec, swap)
    world.commit(spec)
    assert world.rows() == expected(*FIRST)


def test_a_foreign_table_of_targets_name_is_never_replaced(world: FeedOnStandIn) -> None:
    spec = world.resolve(world.land(7, FIRST))
    world.dedup.run(spec.request_uri)
    world.load(spec)
    world.bigquery.query_and_wait(f"CREATE TABLE warehouse.{world.feed.target} (x INT64)")
    with pytest.raises(CheckFailed, match="target_is_parent"):
        world.check(spec)
    with pytest.raises(CheckFailed, match=r"target_is_parent.*\n?.*bootstrap the feed"):  # the next run, at once
        world.resolve(world.land(8, FIRST))
    assert world.services.current.read().intent is None


def test_a_refused_delivery_is_set_aside_and_blocks_no_other(world: FeedOnStandIn) -> None:
    world.dedup.refused_ids = {8}
    bad, good = world.land(8, SECOND), world.land(9, [row(9, 1)])
    record = world.publish(good)
    assert [d.name for d in record.deliveries] == [good]
    assert [d.name for d in world.services.arrivals.refused()] == [bad]
    with pytest.raises(DeliveryRefused, match=f"{bad}.*refused and set aside"):
        resolve(world.services, world.publish_request(bad))


@pytest.mark.exhaustive
def test_a_publish_of_refused_deliveries_only_changes_nothing(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    world.dedup.refused_ids = {8}
    spec = world.resolve(world.land(8, SECOND))
    with pytest.raises(DeliveryRefused, match=r"target is unchanged(?s:.*)1 bad row"):
        world.deduplicate(spec)
    assert world.rows() == expected(*FIRST)
    assert world.publish(world.land(9, [row(9, 1)])).generation == 3


def test_pruning_keeps_the_live_generation_and_its_parent(world: FeedOnStandIn) -> None:
    for snapshot_id in (7, 8, 9):
        world.publish(world.land(snapshot_id, [row(snapshot_id, 1)]))
    deleted = prune(world.services)
    assert [d.split("/")[-2][:8] for d in deleted] == ["00000001"]
    left = world.services.store.folders(world.services.layout.data)
    assert [f.split("/")[-2][:8] for f in left] == ["00000002", "00000003"]
    assert prune(world.services) == []
    index = IndexFile(world.services.store, world.feed.feed).read().index
    assert index
    assert [(g.generation, g.has_files) for g in index.generations] == [(1, False), (2, True), (3, True)]
