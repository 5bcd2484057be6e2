"""Bootstrap: a table that MERGE maintained becomes the first generation, and the next snapshot publishes on top."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.contract.errors import CheckFailed
from dedup_clone.freshness.evaluation import evaluate
from dedup_clone.freshness.feed_state import DagActivity
from dedup_clone.freshness.read_feed_state import read_feed_state
from dedup_clone.page.publish_kinds import PublishKind, publish_kinds
from dedup_clone.publish.planning.parent_generation import export_folder
from dedup_clone.publish.previews.dry_run import dry_run
from dedup_clone.publish.records.attempt_records import read_check_results
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.rollback.resolve_rollback import RollbackRequest, resolve_rollback
from dedup_clone.state.index import IndexFile
from dedup_clone.state.ledger import Outcome
from testkit.feed_on_stand_in import ROLLBACK_DAG, TODAY, YESTERDAY, FeedOnStandIn, expected, row
from tests.contract.publish import bootstrap_steps as steps
from tests.contract.publish.bootstrap_steps import MAINTAINED


def test_a_table_that_merge_maintained_is_taken_over_with_equal_contents_as_the_evidence_says(
    maintained: FeedOnStandIn,
) -> None:
    record = steps.bootstrap(maintained, reason="from now on by clones")
    assert maintained.rows() == expected(*MAINTAINED)
    assert maintained.live() == "1"
    target = maintained.services.warehouse.table(maintained.feed.target)
    assert target
    assert target.clone_of == maintained.feed.staging
    assert target.labels["dedup_clone_snapshot"] == "8"
    assert (record.outcome, record.generation, record.parent, record.snapshot_id) == (Outcome.PUBLISHED, 1, None, 8)
    assert (record.rows, record.deliveries, record.lag_s, record.is_bootstrap) == (4, (), None, True)
    assert record.reason == (
        f"takes over [warehouse.{maintained.feed.target}], duplicates [refuse]: from now on by clones"
    )
    found = {item.check: item.found for item in read_check_results(maintained.services, record.attempt, "before").items}
    assert found["existing_rows"] == "equal"
    assert found["existing_contents"] == f"equal on 2 dates: {YESTERDAY}, {TODAY}"
    assert "existing_unchanged" in found
    services = maintained.services
    assert list(services.store.objects(export_folder(services, record.attempt))) == []
    assert services.manifests.files_exist(services.manifests.read(1))


def test_the_next_snapshot_is_published_on_top_and_a_rollback_goes_back_to_what_was_taken_over(
    maintained: FeedOnStandIn,
) -> None:
    taken_over = steps.bootstrap(maintained)
    record = maintained.publish(maintained.land(9, [row(9, 2, 30), row(9, 5)]))
    assert not record.is_taken_over
    assert maintained.rows() == expected(row(8, 1, 99), row(9, 2, 30), row(8, 4), row(9, 5), row(7, 3, day=YESTERDAY))
    assert (record.generation, record.parent, record.new_rows, record.changed_rows) == (2, 1, 1, 1)
    record = maintained.roll_back(1)
    assert maintained.rows() == expected(*MAINTAINED)
    assert (record.restores, record.snapshot_id, record.lag_s) == (1, 8, None)
    assert (record.is_taken_over, record.arrived_at) == (True, taken_over.arrived_at)


@pytest.mark.exhaustive
def test_a_snapshot_older_than_the_table_only_fills_what_it_lacks_and_a_dry_run_says_so(
    maintained: FeedOnStandIn,
) -> None:
    waiting = maintained.land(6, [row(6, 1, 1), row(6, 9)])
    steps.bootstrap(maintained)
    found = dry_run(maintained.services, maintained.publish_request(waiting))
    assert found.effect.startswith("older than snapshot 8, which is live: only fills gaps")
    maintained.publish(waiting)
    assert maintained.rows() == expected(*MAINTAINED, row(6, 9))


def test_another_table_is_taken_over_and_stays_as_it_is(world: FeedOnStandIn) -> None:
    source = f"{world.feed.feed}_merged"
    steps.create_table(world, source)
    steps.insert(world, source, MAINTAINED)
    steps.bootstrap(world, source_table=f"warehouse.{source}")
    assert world.rows() == world.rows(source) == expected(*MAINTAINED)
    steps.insert(world, source, [row(9, 9)])
    assert world.rows() == expected(*MAINTAINED)


@pytest.mark.exhaustive
def test_a_rollback_to_what_was_taken_over_that_died_is_reported_in_the_ledger(maintained: FeedOnStandIn) -> None:
    steps.bootstrap(maintained)
    maintained.publish(maintained.land(9, [row(9, 2, 30)]))
    resolve_rollback(maintained.services, RollbackRequest(ROLLBACK_DAG, "back", 1, 2, "bad"))
    recover(maintained.services, dag_id="other", run_id="other")
    record = maintained.services.ledger.read_last(1)[0]
    assert (record.outcome, record.restores, record.snapshot_id) == (Outcome.FAILED, 1, 8)
    assert not record.is_bootstrap


@pytest.mark.exhaustive
def test_readers_of_the_ledger_know_it_from_a_publish(maintained: FeedOnStandIn) -> None:
    steps.bootstrap(maintained)
    services = maintained.services
    index = IndexFile(services.store, services.feed.feed).read().index
    assert index
    assert publish_kinds(index) == {1: PublishKind.BOOTSTRAP}
    assert [g.snapshot_id for g in index.generations] == [8]
    state = read_feed_state(
        services,
        watch_dag=DagActivity("a_watch", False, True, None, None),
        publish_dag=None,
        find_failed_run=lambda waiting: None,
        check_interval=timedelta(minutes=1),
    )
    assert (state.live.generation if state.live else None, state.arrivals, state.waiting) == (1, (), ())
    verdict = evaluate(services.now(), state)
    assert verdict.headline == "Readers see the table that was taken over, up to update id 8."
    maintained.write_reporting_tables()
    for table, columns in (("dedup_clone_status", "snapshot_id"), ("dedup_clone_ledger", "ARRAY_LENGTH(deliveries)")):
        sql = f"SELECT {columns} FROM warehouse.{table} WHERE feed = '{services.feed.feed}'"
        assert [r[0] for r in maintained.bigquery.query_and_wait(sql)] == [8 if columns == "snapshot_id" else 0]


@pytest.mark.exhaustive
def test_some_dates_of_a_snapshot_can_be_replayed_on_top(maintained: FeedOnStandIn) -> None:
    taken_over = steps.bootstrap(maintained)
    name = maintained.land(9, [row(9, 2, 30), row(9, 3, 31, day=YESTERDAY)])
    record = maintained.publish(name, replay=True, run_id="by hand", dates=(YESTERDAY,))
    assert (record.snapshot_id, record.deliveries, record.is_taken_over) == (8, (), True)
    assert record.arrived_at == taken_over.arrived_at
    shown = dry_run(maintained.services, maintained.publish_request(name))
    assert shown.changes_target


def test_rows_that_staging_got_wrong_are_not_swapped_in(maintained: FeedOnStandIn) -> None:
    spec = steps.until_load(maintained)
    maintained.bigquery.query_and_wait(
        f"UPDATE warehouse.{maintained.feed.staging} SET attr_value = 1 WHERE product_id = 4 AND date = '{TODAY}'"
    )
    with pytest.raises(CheckFailed, match=r"existing_contents.*rows="):
        maintained.check(spec)
    assert maintained.live() is None
