"""DML of others on staging while an engine in SQL publishes: the right table is published, or the run fails in words.

Sources: "Data manipulation language", UPDATE, DELETE, MERGE DML concurrency; "Quotas and limits".
"""

from __future__ import annotations

import threading
import time

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery import Client as BigQuery
from google.cloud.bigquery import QueryJob
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.freshness.feed_state import PendingJob
from dedup_clone.orchestration.shared.retries import is_permanent
from dedup_clone.publish.step_specs import PublishSpec
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import row
from testkit.table_contracts import PRODUCTS
from testkit.waiting import wait_for
from tests.contract.feed_state_reader import read_state

RIGHT = [([1, 1], [1, 31]), ([1, 2], [1, 20]), ([1, 3], [1, 33])]  # product 2 is missing in snapshot 2
MAXIMUM_RUNNING, MAXIMUM_WAITING = 2, 20


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedAgainstOracle:
    """Snapshot 1 is live, and staging holds it."""
    world = FeedAgainstOracle(clients, feed_with_table(PRODUCTS, Engine.MERGE))
    world.publish(world.land(1, [row(1, 1), row(1, 2)]))
    return world


def snapshot_2(world: FeedAgainstOracle) -> PublishSpec:
    spec = world.resolve(world.land(2, [row(2, 1, 31), row(2, 3, 33)]))
    world.deduplicate(spec)
    return spec


def update_staging(world: FeedAgainstOracle, count: int, held_s: float) -> list[QueryJob]:
    """Start UPDATEs of somebody else, which change the row that the snapshot lacks. The first two run for `held_s`."""
    world.delay_jobs(f"^foreign-{world.feed.feed}-", held_s, times=MAXIMUM_RUNNING)
    sql = f"UPDATE warehouse.{world.feed.staging} SET attr_value = attr_value + 1000 WHERE product_id = 2"
    jobs = []
    for number in range(count):
        jobs.append(world.bigquery.query(sql, job_id=f"foreign-{world.feed.feed}-{number}", job_retry=None))
        if number < MAXIMUM_RUNNING:
            wait_for(lambda: state(jobs[-1]) == "RUNNING", "the last job runs", poll_interval_s=0.01)
    return jobs


def state(job: QueryJob) -> str:
    job.reload()  # type: ignore[no-untyped-call]
    return str(job.state)


def finish(world: FeedAgainstOracle, spec: PublishSpec) -> dict[str, float]:
    world.swap(spec, world.check(spec))
    record = world.commit(spec)
    assert [(r[1], r[4]) for r in world.table_rows()] == RIGHT
    assert record.lag_s is not None
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)
    return record.phases


def test_rows_that_others_changed_are_not_merged_into_before_the_load_and_stop_the_publish_after_it(
    world: FeedAgainstOracle,
) -> None:
    change = f"UPDATE warehouse.{world.feed.staging} SET attr_value = 7 WHERE product_id = 2"
    world.bigquery.query_and_wait(change)
    spec = snapshot_2(world)
    world.load(spec)
    assert [(r[1], r[4]) for r in world.table_rows(world.feed.staging)] == RIGHT
    world.bigquery.query_and_wait(change)
    with pytest.raises(CheckFailed, match=r"staging_unchanged.*changed later.*somebody else writes staging"):
        world.check(spec)


def test_a_merge_that_waited_for_others_is_followed_by_a_select_of_all_rows(world: FeedAgainstOracle) -> None:
    spec = snapshot_2(world)
    foreign = update_staging(world, MAXIMUM_RUNNING + 1, held_s=5)
    load = threading.Thread(target=world.load, args=(spec,))
    load.start()
    seen: list[PendingJob] = []
    while load.is_alive():
        job = read_state(world.services).pending_job
        seen += [job] if job else []
        time.sleep(0.05)
    load.join()
    assert any(job.is_statement for job in seen)
    assert {state(job) for job in foreign} == {"DONE"}
    intent = world.services.current.require_intent(spec.attempt)
    assert [name.rsplit("-", 2)[1] for name in intent.jobs][-2:] == ["load", "replace"]
    labels = [world.bigquery.get_job(name, location="US").labels for name in intent.jobs[-2:]]
    assert [label["dedup_clone_step"] for label in labels] == ["load", "replace"]
    assert finish(world, spec)["queued"] >= 1


@pytest.mark.exhaustive
def test_a_publish_that_finds_the_queue_full_tries_again_and_refuses_rows_that_changed_after_its_load(
    world: FeedAgainstOracle,
) -> None:
    spec = snapshot_2(world)
    foreign = update_staging(world, MAXIMUM_RUNNING + MAXIMUM_WAITING, held_s=20)
    with pytest.raises(GoogleAPICallError, match="Too many DML statements outstanding") as full:
        world.load(spec)
    assert not is_permanent(full.value)  # Airflow tries again
    world.load(spec, number=2)  # a SELECT, which waits in no queue
    wait_for(lambda: all(state(job) == "DONE" for job in foreign), "all jobs are done", poll_interval_s=0.01)
    assert any(job.error_result is None for job in foreign)  # others give up, after their own conflicts
    with pytest.raises(CheckFailed, match=r"staging_unchanged.*changed later.*somebody else writes staging"):
        world.check(spec)
    world.services.current.release(spec.attempt)
    again = world.resolve(world.services.arrivals.deliveries()[-1].name, run_id="again")
    world.deduplicate(again)
    world.load(again)
    finish(world, again)
