"""What the engines in SQL do in each step: once an attempt, repeatable, and on what staging really holds."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, JobFailed, LostRace, OutcomeUnknown
from dedup_clone.contract.table import Column, ColumnMode, TableContract, UpdateIdMode
from dedup_clone.engines.staging_job import finish_staging
from dedup_spark.column_types import arrow_schema
from testkit import operations, runs
from testkit.airflow import TaskApi
from testkit.dag_tasks import DagTasks
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY, row
from testkit.table_contracts import PRODUCTS
from testkit.waiting import wait_for
from tests.shared.damaged_parquet import enum_file

QUERY, MERGE = Engine.BIGQUERY, Engine.MERGE
Clients = tuple[Storage, BigQuery]


@pytest.fixture
def world(clients: Clients) -> FeedAgainstOracle:
    return FeedAgainstOracle(clients, feed_with_table(PRODUCTS))


def jobs_of(world: FeedAgainstOracle) -> list[str]:
    """Steps and numbers of the running attempt's jobs, as CURRENT has them."""
    assert world.state.lease
    return ["-".join(name.rsplit("-", 2)[1:]) for name in world.state.lease["jobs"]]


def statements(world: FeedAgainstOracle, attempt: str) -> dict[str, Any]:
    """The attempt's query jobs by step."""
    jobs = [job for job in world.jobs() if attempt in job.job_id]
    return {job.labels["dedup-clone-step"]: job for job in jobs if job.job_type == "query"}


def values(world: FeedAgainstOracle, table: str | None = None) -> dict[int, int]:
    """The attribute's value by product."""
    name = table or world.feed.target
    found = world.bigquery.query_and_wait(f"SELECT product_id, attr_value FROM warehouse.{name}")
    return {r["product_id"]: r["attr_value"] for r in found}


def fail_next(world: FeedAgainstOracle, job: str, *, times: int = 1, status: int = 503, message: str = "again") -> None:
    reason = "invalid" if status == 400 else "backendError"
    world.fail_jobs(job, times=times, reason=reason, status=status, message=message)


def test_each_job_of_the_step_runs_once_however_often_the_task_is_tried(world: FeedAgainstOracle) -> None:
    run = runs.publish(world, world.land(1, [row(1, 1)]), engine=QUERY).until("dedup")
    candidate = world.state.read(f"attempts/{run.attempt}/candidate.json")
    run.step("dedup")
    assert world.state.read(f"attempts/{run.attempt}/candidate.json") == candidate
    assert jobs_of(world) == ["examine_1-1", "incoming-1", "append_1-1", "evidence-1"]
    assert world.incoming() == [run.attempt]
    run.until("load")
    assert world.incoming() == [], "no policy would protect it"
    assert run.finish().rows == 1


def test_without_the_lease_nothing_is_done(world: FeedAgainstOracle) -> None:
    run = runs.publish(world, world.land(1, [row(1, 1)]), engine=QUERY).until("resolve")
    run.end()
    with pytest.raises(LostRace):
        run.until("dedup")


def test_a_delivery_that_the_load_job_cannot_decode_is_refused_alone(world: FeedAgainstOracle) -> None:
    first = world.land(1, [row(1, 1)])
    run = runs.publish(world, world.land(2, [row(2, 2)]), engine=QUERY).until("resolve")
    fail_next(world, f"{run.attempt}-append_1-1$", status=400, message="a page is damaged")
    run.finish()
    assert world.state.deliveries("refused") == [first]
    assert "a page is damaged" in str(world.state.read(f"refused/{first}.json")["reason"])
    assert ([d["snapshot_id"] for d in world.state.manifest()["applied"]], values(world)) == ([2], {2: 20})


def test_a_job_that_fails_is_tried_again_under_the_next_id_twenty_times(world: FeedAgainstOracle) -> None:
    run = runs.publish(world, world.land(1, [row(1, 1)]), engine=QUERY).until("resolve")
    fail_next(world, f"{run.attempt}-append_1-")
    with pytest.raises(JobFailed):
        run.step("dedup")
    run.step("dedup")
    assert jobs_of(world)[2:] == ["append_1-1", "append_1-2", "evidence-1"]
    run.end()
    run = runs.publish(world, world.state.deliveries("arrivals")[0], engine=QUERY, run_id="again").until("resolve")
    fail_next(world, f"{run.attempt}-evidence-", times=100)
    for _ in range(20):
        with pytest.raises(JobFailed):
            run.step("dedup")
    with pytest.raises(OutcomeUnknown):
        run.step("dedup")


def test_merge_changes_the_parents_rows_in_staging(world: FeedAgainstOracle) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=Engine.SPARK)
    run = runs.publish(world, world.land(2, [row(2, 1, 5), row(2, 3)]), engine=MERGE)
    run.finish()
    assert "MERGE INTO" in statements(world, run.attempt)["load"].query
    assert values(world) == {1: 5, 2: 20, 3: 20}


def test_merge_gives_way_to_a_select_if_staging_holds_another_attempts_rows(world: FeedAgainstOracle) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=MERGE)
    dead = world.land(2, [row(2, 1, 99), row(2, 9)])
    run = runs.publish(world, dead, engine=QUERY).until("load")  # staging holds it, and it is never swapped
    run.end()
    world.state.lose(f"arrivals/{dead}")
    run = runs.publish(world, world.land(3, [row(3, 1, 30)]), engine=MERGE)
    run.finish()
    assert "MERGE INTO" not in statements(world, run.attempt)["load"].query
    assert values(world) == {1: 30, 2: 20}


@pytest.mark.parametrize("engine", [QUERY, MERGE])
def test_examples_name_keys_of_each_difference(world: FeedAgainstOracle, engine: Engine) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=engine)
    run = runs.publish(world, world.land(2, [row(2, 1, 9), row(2, 3)]), engine=engine).until("dedup")
    found = world.state.read(f"attempts/{run.attempt}/candidate.json")["examples"]
    keys = [(example["difference"], re.findall(r"product_id=(\d)", str(example))) for example in found]
    assert keys == [("new", ["3"]), ("changed", ["1"]), ("survivor", ["2"])]


def test_a_query_above_the_limit_is_refused_before_it_runs(world: FeedAgainstOracle) -> None:
    world.publish(world.land(7, [row(7, n) for n in range(50)]))
    for engine in (QUERY, MERGE):
        world.feed = world.feed.model_copy(update={"engine": engine, "max_bytes_billed": 100})
        name = world.land(8, [row(8, n) for n in range(50)])
        run = runs.publish(world, name, run_id=str(engine)).until("resolve")
        with pytest.raises(CheckFailed, match=r"\[max_bytes_billed\] allows: \[100\]"):
            run.until("dedup")
        assert {"evidence", "load"} & statements(world, run.attempt).keys() == set()
        run.end()


PAGES = TableContract(
    (Column("day", "DATE"), Column("id", "INT64"), Column("text", "STRING"), Column("version", "INT64")),
    *("day", "version", ("day", "id"), ("id",), 730),
)


@pytest.mark.parametrize("engine", [QUERY, MERGE])
def test_the_cost_in_the_ledger_is_what_bigquery_bills(clients: Clients, engine: Engine) -> None:
    world = FeedAgainstOracle(clients, feed_with_table(PAGES))
    for version in (1, 2):  # of 12 MB each, above the smallest amount that is billed
        text = str(version) * 40_000
        rows = [{"day": TODAY, "id": number, "text": text, "version": version} for number in range(300)]
        record = world.publish(world.land(version, rows), engine=engine)
    billed = statements(world, record.attempt)["load"].total_bytes_billed
    assert billed >= 2 * (10 << 20)
    assert record.cost
    claimed = record.cost.merge_usd if engine is MERGE else record.cost.qualify_usd
    assert claimed == pytest.approx(billed / (1 << 40) * 6.25, rel=0.1)
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)


def test_types_that_sql_reads_or_orders_otherwise(clients: Clients) -> None:
    """A DATETIME, an ENUM (rest/v2/tables, ParquetOptions.enumAsString), negative numbers in arrays, reserved words."""
    moment = datetime(2026, 1, 31, 1, 2, 3)  # noqa: DTZ001  (a DATETIME has no zone)
    more = [("seen_at", "DATETIME"), ("kind", "STRING"), ("select", "STRING"), ("order", "INT64")]
    columns = (*(Column(*one) for one in more), Column("n", "INT64", ColumnMode.REPEATED))
    table = TableContract(
        (*PRODUCTS.columns, *columns), "date", "update_id", (*PRODUCTS.keys, "order"), PRODUCTS.cluster_by, 730
    )
    for engine in (QUERY, MERGE):
        world = FeedAgainstOracle(clients, feed_with_table(table, engine))
        landed = [
            {**row(1, 1), "seen_at": moment, "kind": "red", "select": "a", "order": 1, "n": [number]}
            for number in (-(2**63), -2, -1)
        ]
        (path,) = world.files_of(landed)
        file = enum_file(pa.Table.from_pylist(landed, schema=arrow_schema(table.columns)), "kind")
        world.publish(world.land_files(1, {path: file}))
        (found,) = world.bigquery.query_and_wait(f"SELECT seen_at, kind, n FROM warehouse.{world.feed.target}")
        assert tuple(found) == (moment, "red", [-1])


def test_a_replay_by_an_engine_that_cannot_keep_the_contract_is_refused(world: FeedAgainstOracle) -> None:
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    name = world.land(1, [row(1, 1)])
    with pytest.raises(ConfigurationError, match=r"\[last_seen\] only"):
        world.resolve(name, engine=MERGE)
    assert world.state.lease is None


class DedupTask:
    """The dedup task of the publish DAG. `submitted`: how often it ran the world's dedup in the place of Spark."""

    def __init__(self, world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch, run: runs.Run) -> None:
        self.tasks = DagTasks(world, TaskApi(monkeypatch), monkeypatch, "publish")
        self.tasks.has_taken(run.plan)
        self.submitted, dedup = 0, world.dedup.run

        def submit(request_uri: str) -> None:
            self.submitted += 1
            dedup(request_uri)

        monkeypatch.setattr(world.dedup, "run", submit)

    def execute(self) -> None:
        self.tasks.execute("dedup_snapshot")


@pytest.mark.parametrize("engine", [QUERY, Engine.SPARK])
def test_the_dedup_task_submits_spark_only_if_the_order_says_so(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    run = runs.publish(world, world.land(1, [row(1, 1)]), engine=engine).until("resolve")
    task = DedupTask(world, monkeypatch, run)
    task.execute()
    assert task.submitted == (engine is Engine.SPARK)
    assert world.state.read(f"attempts/{run.attempt}/candidate.json")["manifest"]["engine"] == engine


@pytest.mark.parametrize("engine", [Engine.SPARK, QUERY])
def test_the_dedup_task_fails_at_once_when_every_delivery_is_refused(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    name = world.land(1, [row(2, 1)])  # rows of another snapshot
    task = DedupTask(world, monkeypatch, runs.publish(world, name, engine=engine).until("resolve"))
    for _ in range(2):  # a second try tells nobody again
        with pytest.raises(AirflowFailException):
            task.execute()
    assert world.state.deliveries("refused") == [name]
    assert [outcome for _, outcome in world.state.outcomes()] == ["refused"]
    assert world.state.lease is None


def test_the_dedup_task_fails_when_its_job_left_no_candidate(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.dedup = SimpleNamespace(run=lambda request_uri: None)
    task = DedupTask(world, monkeypatch, runs.publish(world, world.land(1, [row(1, 1)])).until("resolve"))
    with pytest.raises(AirflowFailException, match="no candidate"):
        task.execute()


# DML of others on staging. Sources: "Data manipulation language", UPDATE, DELETE, MERGE DML concurrency; "Quotas".


@pytest.fixture
def merged(world: FeedAgainstOracle) -> runs.Run:
    """Snapshot 1 is live, and staging holds it; snapshot 2, without product 2, is about to be loaded by MERGE."""
    world.feed = world.feed.model_copy(update={"engine": MERGE})
    world.publish(world.land(1, [row(1, 1), row(1, 2)]))
    return runs.publish(world, world.land(2, [row(2, 1, 31), row(2, 3, 33)]))


RIGHT = {1: 31, 2: 20, 3: 33}


def test_rows_that_others_changed_are_not_merged_into_before_the_load_and_stop_the_publish_after_it(
    merged: runs.Run,
) -> None:
    world: Any = merged.world
    change = f"UPDATE warehouse.{world.feed.staging} SET attr_value = 7 WHERE product_id = 2"
    world.bigquery.query_and_wait(change)
    merged.until("load")
    assert values(world, world.feed.staging) == RIGHT
    world.bigquery.query_and_wait(change)
    with pytest.raises(CheckFailed, match="staging_unchanged"):
        merged.until("check")


def test_a_merge_that_waited_for_others_is_followed_by_a_select_of_all_rows(merged: runs.Run) -> None:
    world: Any = merged.world
    merged.until("dedup")
    world.delay_jobs(f"^foreign-{world.feed.feed}-", 5, times=2)
    sql = f"UPDATE warehouse.{world.feed.staging} SET attr_value = attr_value + 1000 WHERE product_id = 2"
    foreign = []
    for number in range(3):  # BigQuery runs two DML statements on a table at once
        foreign.append(world.bigquery.query(sql, job_id=f"foreign-{world.feed.feed}-{number}", job_retry=None))
        if number < 2:
            wait_for(is_running(foreign[-1]), "the last job runs", poll_interval_s=0.01)
    load = threading.Thread(target=merged.until, args=("load",))
    load.start()
    seen = False
    while load.is_alive():
        job = operations.pending_job(world)
        seen = seen or bool(job and job.is_statement)
        time.sleep(0.05)
    load.join()
    assert seen
    candidate = world.services.manifests.candidate(merged.attempt)
    finish_staging(world.services, merged.plan, candidate, candidate.manifest)  # a try after the incoming table is gone
    assert [name.rsplit("-", 2)[1] for name in world.state.lease["jobs"]][-2:] == ["load", "replace"]
    assert merged.finish().phases["queued"] >= 1
    assert values(world) == RIGHT


def is_running(job: Any) -> Callable[[], bool]:
    def check() -> bool:
        job.reload()
        return str(job.state) == "RUNNING"

    return check
