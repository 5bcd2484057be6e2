"""The publish protocol step by step: what readers see, the lease, what a dead run leaves, and its recovery."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from google.api_core.exceptions import BadRequest, Conflict, GoogleAPICallError

from dedup_clone.contract.errors import (
    CheckFailed,
    DedupCloneError,
    DeliveryRefused,
    LeaseHeld,
    LostRace,
    OutcomeUnknown,
)
from testkit import operations, runs, step_faults
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from testkit.lost_answers import losing_answers
from testkit.operations import pending_job
from tests.contract.publish.existing_tables import column, land_declared, with_columns


@pytest.fixture(params=["clone", "copy"])
def world(world: FeedOnStandIn, request: pytest.FixtureRequest) -> FeedOnStandIn:
    world.configure(publish={"swap": request.param})
    return world


FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SECOND = [row(8, 1, 21), row(8, 4), row(8, 3, day=YESTERDAY)]  # 1 changed, 2 missing, 4 new, 3 equal
BOTH = [row(8, 1, 21), row(7, 2), row(8, 3, day=YESTERDAY), row(8, 4)]


def test_a_publish_is_a_labelled_clone_that_reads_no_table_data_and_keeps_what_the_snapshot_lacks(
    world: FeedOnStandIn,
) -> None:
    cost = world.publish(world.land(7, FIRST)).cost
    assert world.rows() == expected(*FIRST)
    assert cost is not None
    assert cost.query_bytes_billed == 0
    target = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    assert target.clone_definition.base_table_reference.table_id == world.feed.staging
    assert target.time_partitioning.expiration_ms == 730 * 86_400_000
    assert target.labels["dedup_clone_generation"] == "1"
    assert target.labels["dedup_clone_snapshot"] == "7"
    assert target.labels["dedup_clone_manifest"] == world.state.current["manifest_digest"]
    run = runs.publish(world, world.land(8, SECOND))
    record = run.finish()
    assert world.rows() == expected(*BOTH)
    assert (record.rows, record.new_rows, record.changed_rows, record.kept_rows) == (4, 1, 1, 1)
    assert (record.snapshot_id, record.replay, record.loads) == (8, False, 1)
    assert record.lag_s
    run.step("commit")  # the task is tried again, and reports the same
    assert run.record == record
    assert world.state.outcomes() == [(1, "published"), (2, "published")]


def test_a_column_that_is_declared_while_a_run_is_at_work_counts_from_the_next_run(world: FeedOnStandIn) -> None:
    run = runs.publish(world, world.land(7, FIRST)).until("load")
    world.feed = with_columns(world.feed, note=column("note", "STRING"))
    run.finish()
    assert world.rows() == expected(*FIRST)
    world.publish(land_declared(world, 8, [row(8, 1, 21)]))
    assert world.rows() == expected(row(8, 1, 21), *FIRST[1:])


def test_any_number_of_waiting_deliveries_is_one_publish_in_the_order_of_their_ids(world: FeedOnStandIn) -> None:
    corrected = world.land(9, [row(9, 9, 50), row(9, 99)])
    names = [world.land(n, [row(n, n, 40), row(n, 1, n)]) for n in (9, 7, 12, 8, 11, 10)]
    world.spoil(10)
    assert "superseded by a later delivery" in world.nothing_to_do(corrected)
    record = world.publish(names[0])
    assert [d.snapshot_id for d in record.deliveries] == [7, 8, 9, 11, 12]
    assert world.rows() == expected(row(12, 1, 12), *[row(n, n, 40) for n in (7, 8, 9, 11, 12)])
    for name in names[:-1]:
        assert "part of generation 1" in world.nothing_to_do(name)
    assert "later delivery of snapshot 9" in world.nothing_to_do(corrected)
    assert world.state.deliveries("refused") == [names[-1]]
    with pytest.raises(DeliveryRefused, match=names[-1]):
        world.resolve(names[-1])


def test_runs_that_die_before_their_swap_leave_nothing_but_a_record(world: FeedOnStandIn) -> None:
    """Each is ended by the next, which publishes its delivery, too; no generation number is used again."""
    world.publish(world.land(7, FIRST))
    for snapshot_id, step in enumerate(("resolve", "dedup", "load", "check"), 8):
        rows = [{**r, "update_id": snapshot_id} for r in SECOND]
        died = runs.publish(world, world.land(snapshot_id, rows), run_id=f"run-{step}").until(step)
    waits = world.land(12, [row(12, 1)])
    world.running = {"run-check"}  # it may be alive
    with pytest.raises(LeaseHeld, match="run-check"):
        world.resolve(waits)
    world.running = set()
    record = world.publish(world.land(13, [row(13, 1, 30)]))
    assert (record.generation, record.parent) == (6, 1)
    assert [d.snapshot_id for d in record.deliveries] == [8, 9, 10, 11, 12, 13]
    assert world.rows() == expected(row(13, 1, 30), row(7, 2), row(11, 3, day=YESTERDAY), row(11, 4))
    assert world.state.outcomes() == [(1, "published"), *((n, "failed") for n in (2, 3, 4, 5)), (6, "published")]
    reasons = [found["reason"] for found in world.state.ledger()]
    assert reasons[1] == "ended before its dedup had a result"
    assert reasons[2] == "ended before its load"
    assert world.state.generations("data") == [1, 6]
    for step in ("load", "check", "commit"):
        with pytest.raises(LostRace, match="Clear the run from its first task"):
            died.step(step)


def test_failed_first_publishes_leave_no_files(world: FeedOnStandIn) -> None:
    name = world.land(7, FIRST)
    for run_id in ("first", "second"):
        assert not runs.publish(world, name, run_id=run_id).until("dedup").end()
        assert world.state.names("data/") == []


def test_a_failed_run_ends_itself_and_refused_deliveries_change_nothing(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    failed = runs.publish(world, world.land(8, SECOND)).until("dedup")
    assert not failed.end()
    assert world.state.lease is None
    waits = world.land(9, [row(9, 1)])
    for snapshot_id in (8, 9):
        world.spoil(snapshot_id)
    with pytest.raises(DeliveryRefused, match=r"target is unchanged(?s:.*)was replaced"):
        world.publish(waits)
    assert world.state.outcomes() == [(1, "published"), (2, "failed"), (3, "refused")]
    assert "was replaced" in world.state.ledger()[2]["reason"]
    assert (world.rows(), world.state.generations("data")) == (expected(*FIRST), [1])
    assert world.publish(world.land(10, [row(10, 1)])).generation == 4


def test_a_job_that_still_runs_is_waited_for_before_the_lease_is_freed(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    dead = runs.publish(world, world.land(8, [row(8, 1, 99)])).until("dedup")
    job = dead.prepare_load()
    world.delay_jobs(job.job_id, 1.0)
    job._begin()
    operations.recover_lease(world)
    assert world.bigquery.get_job(job.job_id, location="US").state == "DONE"


def test_checks_that_are_repeated_keep_the_time_of_a_swap_that_happened_and_only_of_that(world: FeedOnStandIn) -> None:
    """As in a run that was marked failed between swap and commit and is cleared from `check_staging`."""
    run = runs.publish(world, world.land(7, FIRST)).until("check")
    swapped, run._checked = run.checked, replace(run.checked, parent="5")
    with pytest.raises(BadRequest):
        run.step("swap")
    run.step("check")
    assert run.checked.checked_at > swapped.checked_at
    run.swap(number=2)
    swapped = run.checked
    run.step("check")
    assert run.checked == swapped  # the swap task then reuses the job that has swapped
    run.step("commit")
    assert run.record.outcome == "published"
    assert {found["level"] for found in world.state.checks(run.attempt, "after").values()} == {"pass"}
    assert world.rows() == expected(*FIRST)


def test_a_foreign_table_of_targets_name_is_never_replaced_or_taken_for_a_swap(world: FeedOnStandIn) -> None:
    run = runs.publish(world, world.land(7, FIRST)).until("check")
    world.query(f"CREATE TABLE .{world.feed.target} (x INT64)")
    with pytest.raises(OutcomeUnknown, match="the swap did not happen"):
        run.step("commit")
    with pytest.raises(CheckFailed, match="target_is_parent"):
        run.step("check")
    with pytest.raises(CheckFailed, match=r"target_is_parent.*\n?.*bootstrap the feed"):  # the next run, at once
        world.resolve(world.land(8, FIRST))
    assert world.state.lease is None


def test_what_others_write_between_check_and_swap_is_not_published_and_not_replaced(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    run = runs.publish(world, world.land(8, SECOND)).until("dedup")
    world.spoil(8)  # the generation has files of its own
    run.until("check")
    world.query(f"INSERT INTO .{world.feed.staging} (date, product_id) VALUES (CURRENT_DATE(), 9)")
    run.finish()
    assert world.rows() == expected(*BOTH)
    run = runs.publish(world, world.land(9, [row(9, 1, 99)])).until("check")
    world.query(f"ALTER TABLE .{world.feed.target} SET OPTIONS (labels = [('dedup_clone_generation', '99')])")
    with pytest.raises((DedupCloneError, GoogleAPICallError)):
        run.step("swap")
    assert world.rows() == expected(*BOTH)


def test_a_load_that_a_sleeping_task_makes_after_its_run_was_ended_is_rejected(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    job = runs.publish(world, world.land(8, SECOND)).until("dedup").prepare_load()
    world.spoil(8)
    after = runs.publish(world, world.land(9, [row(9, 4)]), run_id="other").until("load")
    with pytest.raises(Conflict):
        job._begin()
    after.finish()
    assert world.rows() == expected(*FIRST, row(9, 4))


def test_too_many_files_stop_the_publish_before_its_load(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    run = runs.publish(world, world.land(8, SECOND)).until("dedup")
    with (
        step_faults.small_limits(table_files=1),
        pytest.raises(CheckFailed, match=r"\[3\] files, expected at most \[1\]"),
    ):
        run.step("load")
    assert world.rows(world.feed.staging) == expected(*FIRST)
    assert world.state.read("CURRENT")["staging"]["holds"]


def test_a_snapshot_beyond_its_bounds_or_unusual_for_its_feed_stops_before_the_swap(world: FeedOnStandIn) -> None:
    world.configure(checks={"max_changed_share": 0.5, "max_times_usual": 10.0})
    base = [row(7, n) for n in range(200)]
    world.publish(world.land(7, base))
    wild = world.land(8, [row(8, n, 99) for n in range(200)])
    with pytest.raises(CheckFailed) as failed:
        world.publish(wild)
    assert "changed_share: [200 of 200 rows changed (100.0000%)" in str(failed.value)
    assert f"most on {TODAY}: 200 of 200; of delivery [{wild}]" in str(failed.value)
    assert "product_id" not in str(failed.value)
    operations.recover_lease(world)
    reason = world.state.ledger()[-1]["reason"]
    assert reason.startswith("stopped by check [changed_share]: 200 of 200 rows changed (100.0000%)")
    assert reason.endswith("expected at most 50.00% as configured")
    for snapshot in range(9, 15):
        world.publish(world.land(snapshot, [{**r, "update_id": snapshot} for r in base]))
    usual = world.rows()
    with pytest.raises(CheckFailed, match=r"changed_share.*10 of 200 rows changed.*the last 6 publishes"):
        world.publish(world.land(15, [row(15, n, 20 + (n < 10)) for n in range(200)]))
    assert world.rows() == usual


@pytest.mark.parametrize(
    ("hours", "found"), [(23, "4 in the last 24 hours, 2 of"), (25, "0 in the last 24 hours, 2 of")]
)
def test_partition_quota_counts_loads_of_24_hours_and_failed_ones(world: FeedOnStandIn, hours: int, found: str) -> None:
    """The quota refills over 24 hours, and failed loads count (optimize-load-jobs)."""
    world.publish(world.land(7, [row(7, 1), row(7, 2, day=YESTERDAY)]))
    for snapshot_id, step in ((8, "load"), (9, "resolve")):  # both fail, the second one before its load
        runs.publish(world, world.land(snapshot_id, [row(snapshot_id, 1)])).until(step).end()
    run = runs.publish(world, world.land(10, [row(10, 1)])).until("load")
    world.move_clock(timedelta(hours=hours))
    run.step("check")
    assert world.state.checks(run.attempt)["partition_quota"]["found"].startswith(found)


def test_no_write_whose_answer_is_lost_is_taken_for_that_of_another_run(world: FeedOnStandIn) -> None:
    """Every write is stored, but its first answer is 503: the clients then repeat it."""
    with losing_answers(world.storage) as world.storage, losing_answers(world.bigquery) as world.bigquery:
        world.publish(world.land(7, FIRST))
        world.publish(world.land(8, SECOND), run_id="by-hand")
        assert world.rows() == expected(*BOTH)
        world.roll_back(1)
        world.write_reporting_tables()
        assert world.rows() == expected(*FIRST)
        assert world.state.lease is None
        assert world.state.outcomes() == [(n, "published") for n in (1, 2, 3)]


def test_the_time_of_a_pending_load_is_seen_and_counted(world: FeedOnStandIn) -> None:
    run = runs.publish(world, world.land(7, [row(7, 1)])).until("dedup")
    assert pending_job(world) is None
    world.add_fault({"match": {"job_id": f"{run.attempt}-load-1$"}, "effect": "queue", "seconds": 2.0})
    load = threading.Thread(target=run.until, args=("load",))
    load.start()
    seen = None
    while load.is_alive() and not seen:
        seen = pending_job(world)
        time.sleep(0.02)
    load.join()
    assert seen is not None
    assert (seen.job_id.endswith(f"{run.attempt}-load-1"), seen.is_statement) == (True, False)
    assert pending_job(world) is None
    record = run.finish()
    assert record.lag_s
    assert 1.9 <= record.phases["queued"] <= record.lag_s
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)
