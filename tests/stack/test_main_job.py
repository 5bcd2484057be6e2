"""The main job on the real local stack: whatever lands, however it lands, is published once and right.

Three feeds are at work at once, as Airflow waits more than it works: snapshots that are copied by hand, deliveries that
come again and close together, and a publish that a check stopped, which is replayed with that check accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from testkit.approvals import Approvals
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import COLUMNS, Row, StackClient, as_tuples, row
from testkit.stored_changes import expected_changes, stored_changes
from testkit.waiting import wait_for
from tests.stack.copied_snapshots import (
    DAYS,
    OLDEST,
    TABLE,
    Copied,
    assert_bq_reads_the_same,
    publish_copied,
    table_after,
)
from tests.stack.extra_feeds import BOUNDED, ENDED_BADLY, WITH_CHANGES

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

CHECK, REASON = "changed_share", "prices were raised today"


FIRST = [row(DAYS[0], 1, 10, 11), row(DAYS[0], 2, 20, 11), row(DAYS[1], 3, 30, 11)]
CORRECTED = [row(DAYS[0], 1, 5, 11), row(DAYS[0], 2, 20, 11), row(DAYS[1], 3, 30, 11)]
SECOND = [row(DAYS[0], 1, 6, 12), row(DAYS[0], 4, 40, 12)]

Table = list[tuple[object, ...]]


@dataclass(frozen=True)
class Delivered:
    """The runs that were to be, those that the feed has, how they ended, and target after the first and the last."""

    expected_runs: list[str]
    runs: list[str]
    ends: list[str]
    after_first: Table
    after_all: Table


def deliver_in_many_ways(stack: StackClient, folder: Path) -> Delivered:
    """Those that land while Airflow is stopped are test_kill_points' business."""
    feed = "worked_example"
    runs = [stack.land(feed, 11, FIRST, folder / "a")]
    ends = [stack.wait_for_run(feed, runs[0])]
    after_first = stack.rows(feed)

    # a re-delivery that corrects a value downward, and a new snapshot, within one minute
    runs.append(stack.land(feed, 11, CORRECTED, folder / "b"))
    wait_for(lambda: runs[1] in stack.run_ids(feed), "the re-delivery has a run")
    runs.append(stack.land(feed, 12, SECOND, folder / "c"))
    ends += [stack.wait_for_run(feed, run) for run in runs[1:]]
    return Delivered(runs, stack.run_ids(feed), ends, after_first, stack.rows(feed))


@pytest.fixture(scope="module", autouse=True)
def in_parallel() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture(scope="module", autouse=True)
def copied(
    in_parallel: ThreadPoolExecutor, stack: StackClient, tmp_path_factory: pytest.TempPathFactory
) -> Future[Copied]:
    """Begun before the first test."""
    return in_parallel.submit(publish_copied, stack, WITH_CHANGES, tmp_path_factory.mktemp("copied"))


@pytest.fixture(scope="module", autouse=True)
def delivered(
    in_parallel: ThreadPoolExecutor, stack: StackClient, tmp_path_factory: pytest.TempPathFactory
) -> Future[Delivered]:
    """Begun before the first test."""
    return in_parallel.submit(deliver_in_many_ways, stack, tmp_path_factory.mktemp("delivered"))


def snapshot(snapshot_id: int) -> list[Row]:
    """Every value is the snapshot's own."""
    return [row(DAYS[0], product, snapshot_id * 10 + product, snapshot_id) for product in range(5)]


def test_airflow_shows_no_import_error(stack: StackClient) -> None:
    assert stack.airflow.import_errors() == []


def test_many_actions_at_once_are_answered_while_tasks_run(stack: StackClient) -> None:
    """Airflow notes each action in its database before it does it: with one writer at a time they block each other."""
    dags = [f"{feed}_{dag}" for feed in ("worked_example", WITH_CHANGES) for dag in ("watch", "publish")]

    def unpause(number: int) -> int:
        return stack.ask("PATCH", f"api/v2/dags/{dags[number % len(dags)]}", body={"is_paused": False}).status

    with ThreadPoolExecutor(8) as people:
        assert set(people.map(unpause, range(800))) == {200}


def test_a_replay_that_accepts_a_failed_check_waits_for_a_person_who_may_refuse_and_keeps_the_reason(
    stack: StackClient, proxied_stack: ProxiedStack, tmp_path: Path
) -> None:
    approvals = Approvals(stack, BOUNDED, "publish", "approve_accepted")
    first = stack.land(BOUNDED, 1, snapshot(1), tmp_path / "1")
    assert stack.wait_for_run(BOUNDED, first) == "success"
    second = stack.land(BOUNDED, 2, snapshot(2), tmp_path / "2")
    assert stack.wait_for_run(BOUNDED, second) == "failed"
    assert CHECK in stack.task_log(BOUNDED, second, "check_staging")
    assert stack.rows(BOUNDED) == as_tuples(snapshot(1))

    for option, end, rows in (("Reject", "failed", snapshot(1)), ("Approve", "success", snapshot(2))):
        run_id = stack.replay(BOUNDED, snapshot_id="2", accepted_checks=[CHECK], reason=REASON)
        question = approvals.wait_for_question(run_id)
        assert CHECK in question
        assert REASON in question
        assert stack.rows(BOUNDED) == as_tuples(snapshot(1))
        assert approvals.answer(run_id, option, user="vera") == 403
        assert approvals.answer(run_id, option) == 200
        assert approvals.wait_for_end(run_id, option) == end, stack.task_states(BOUNDED, run_id)
        assert stack.rows(BOUNDED) == as_tuples(rows)
    assert proxied_stack.ledger(BOUNDED)[-1].reason == f"{REASON} (asked by admin)"


def test_snapshots_copied_by_hand_are_published_right(copied: Future[Copied], stack: StackClient) -> None:
    done = copied.result()
    assert done.ends == ("success", "success")
    assert done.found == done.expected
    assert_bq_reads_the_same(stack, WITH_CHANGES, len(done.expected))


def test_the_table_of_changes_has_what_the_second_of_them_changed(
    copied: Future[Copied], stack: StackClient, proxied_stack: ProxiedStack
) -> None:
    first, second = copied.result().states
    generation = proxied_stack.current(WITH_CHANGES).generation or 0
    expected = expected_changes(first, second, generation=generation, snapshot_id=5002, retention_day=OLDEST)
    assert {change[2][1] for change in expected} == {"new", "changed", "missing"}
    assert stored_changes(stack.bigquery, f"warehouse.{WITH_CHANGES}_changes", TABLE) == expected
    assert [r.change_rows for r in proxied_stack.ledger(WITH_CHANGES)] == [None, len(expected)]


def test_columns_of_target_are_those_declared(copied: Future[Copied], stack: StackClient) -> None:
    copied.result()
    target = stack.bigquery.get_table(f"warehouse.{WITH_CHANGES}")
    assert tuple(field.name for field in target.schema) == COLUMNS
    assert target.clustering_fields == ["product_id", "store_id", "attribute_id"]


def test_each_delivery_gets_exactly_one_run_however_it_arrives(delivered: Future[Delivered]) -> None:
    done = delivered.result()
    assert done.ends == ["success"] * 3
    assert done.runs == sorted(done.expected_runs)
    assert done.after_first == as_tuples(FIRST)
    assert done.after_all == table_after(CORRECTED, SECOND)


def test_a_bad_delivery_is_refused_and_the_next_good_one_published(stack: StackClient, tmp_path: Path) -> None:
    feed = "worked_example"
    before = stack.rows(feed)
    bad = stack.land(feed, 21, [row(DAYS[0], 1, 1, 22)], tmp_path / "bad")
    assert stack.wait_for_run(feed, bad) == "failed"
    assert stack.rows(feed) == before
    states = stack.task_states(feed, bad)
    assert [task for task, state in states.items() if state == "failed"] == ["dedup_snapshot"], states
    assert "update_id" in stack.task_log(feed, bad, "dedup_snapshot")
    good = stack.land(feed, 23, [row(DAYS[0], 1, 2, 23)], tmp_path / "good")
    assert stack.wait_for_run(feed, good) == "success"
    assert (DAYS[0], 1, 2072, 1, 2, 23) in stack.rows(feed)


@pytest.mark.exhaustive
def test_a_replay_by_hand_publishes_the_snapshot_again_and_changes_no_row(stack: StackClient) -> None:
    feed = "worked_example"
    before = stack.rows(feed)
    run_id = stack.replay(feed, snapshot_id="23", reason="to be sure")
    assert stack.wait_for_run(feed, run_id) == "success", stack.task_states(feed, run_id)
    assert stack.rows(feed) == before


def test_a_replay_of_a_snapshot_that_never_landed_is_refused_with_those_that_did(stack: StackClient) -> None:
    run_id = stack.replay("worked_example", snapshot_id="99", reason="a mistake")
    assert stack.wait_for_run("worked_example", run_id) == "failed"
    log = stack.task_log("worked_example", run_id, "resolve_publish")
    assert "Snapshot [99]" in log
    assert "registered snapshots: 11, 12, 21, 23" in log


def test_no_query_of_a_publish_with_spark_reads_table_data(stack: StackClient) -> None:
    jobs = [j for j in stack.bigquery.list_jobs(all_users=True) if "dedup_clone_feed" in (j.labels or {})]
    jobs = [j for j in jobs if j.labels["dedup_clone_feed"] not in ENDED_BADLY]
    assert {j.labels["dedup_clone_step"] for j in jobs} == {"load", "swap", "changes"}
    assert [j.job_id for j in jobs if j.job_type == "query" and j.total_bytes_processed] == []


def test_readers_learn_from_the_status_table_which_snapshot_they_see(stack: StackClient) -> None:
    def live() -> dict[str, int]:
        rows = stack.bigquery.query_and_wait("SELECT * FROM warehouse.dedup_clone_status")
        return {row["feed"]: row["snapshot_id"] for row in rows}

    wait_for(lambda: live().get("worked_example") == 23, "the status table names snapshot 23")
    assert live().get(WITH_CHANGES, 5002) == 5002
