"""The reporting tables: what analysts can ask, each row once, within BigQuery's limits; a failure stops no feed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from google.cloud.bigquery import SchemaField, Table

from dedup_clone.contract.errors import CheckFailed, DeliveryRefused
from testkit import operations, runs
from testkit.dag_tasks import load_waiting_rows
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn, row
from testkit.killed_writes import asleep_before_write, kill_before_write
from testkit.server_clients import open_clients
from tests.contract.new_feeds import new_feed
from tests.thoroughness import times

# More than the five changes of a table in ten seconds that BigQuery allows.
FEEDS_AT_ONCE = times(7, 24)
USED = {"dc-1": 0.1, "dc-2": 0.2}


@pytest.fixture(autouse=True)
def no_faults_left(world: FeedOnStandIn) -> Iterator[None]:
    yield
    world.clear_faults()


def ledger(world: FeedOnStandIn) -> list[int]:
    return [generation for (generation,) in world.reported("generation")]


def status(world: FeedOnStandIn) -> list[int]:
    return [generation for (generation,) in world.reported("generation", "status")]


def test_every_attempt_is_one_row_and_status_tells_what_readers_see(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1)])
    first = runs.publish(world, name)
    first.finish()
    first.step("commit")  # the task is tried again
    world.write_reporting_tables()
    reported = world.reported("snapshot_id, replay, restores", "status")
    refused = runs.publish(world, world.land(8, [row(8, 1)])).until("resolve")
    world.spoil(8)
    with pytest.raises(DeliveryRefused):
        refused.step("dedup")
    world.publish(name, replay=True, run_id="by-hand", reason="again")
    world.write_reporting_tables()
    reported += world.reported("snapshot_id, replay, restores", "status")
    world.publish(world.land(9, [row(9, 2)]))
    world.roll_back(1)
    world.write_reporting_tables()
    reported += world.reported("snapshot_id, replay, restores", "status")
    assert reported == [(7, False, None), (7, True, None), (7, False, 1)]
    assert world.reported("generation, outcome, snapshot_id, restores") == [
        (1, "published", 7, None),
        (2, "refused", 8, None),
        (3, "published", 7, None),
        (4, "published", 9, None),
        (5, "published", 7, 1),
    ]


def test_phases_add_up_to_the_lag_and_all_can_be_asked_of_described_tables(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1)])
    run = runs.publish(world, name).until("resolve")
    world.state.write(f"attempts/{run.attempt}/dedup_started", "")
    record = run.finish()
    assert record.lag_s
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)
    phases = {"until_lease", "task_start", "dedup", "load_start", "load", "checks", "swap", "queued"}
    assert phases <= set(record.phases) <= phases_on_the_page()
    assert "until_lease" not in world.publish(name, replay=True).phases
    world.write_reporting_tables()
    columns = (
        "(SELECT COUNT(*) FROM UNNEST(verdicts) AS v WHERE v.level = 'fail'), "
        "(SELECT p.seconds FROM UNNEST(phases) AS p WHERE p.name = 'load'), query_usd"
    )
    failed, load_seconds, query_usd = world.reported(columns)[0]
    assert failed == 0
    assert isinstance(load_seconds, float)
    assert query_usd == 0
    for table in ("ledger", "status"):
        described = world.bigquery.get_table(f"warehouse.dedup_clone_{table}")
        assert described.description
        assert all(_descriptions(list(described.schema)))


def phases_on_the_page() -> set[str]:
    script = (REPOSITORY / "plugins" / "dedup_clone" / "page" / "static" / "phases.js").read_text()
    return set(re.findall(r"^  (\w+): ", script.split("PHASES = {")[1].split("};")[0], re.MULTILINE))


def _descriptions(fields: list[SchemaField]) -> list[str | None]:
    return [field.description for field in fields] + [inner.description for field in fields for inner in field.fields]


def test_what_spark_used_is_priced_also_of_an_attempt_that_a_check_stops(world: FeedOnStandIn) -> None:
    world.configure(checks={"max_changed_share": 0.5})
    run = runs.publish(world, world.land(7, [row(7, n) for n in range(10)])).until("resolve")
    world.state.write(f"attempts/{run.attempt}/spark_usage.json", json.dumps(USED))
    cost = run.finish().cost
    assert cost is not None
    assert cost.spark_usd == pytest.approx(0.3)
    assert cost.total_usd == pytest.approx(cost.query_usd + 0.3)
    run = runs.publish(world, world.land(8, [row(8, n, 99) for n in range(10)])).until("load")
    world.state.write(f"attempts/{run.attempt}/spark_usage.json", json.dumps(USED))
    with pytest.raises(CheckFailed):
        run.step("check")
    run.end()
    world.publish(world.land(9, [row(9, n) for n in range(10)]))
    world.write_reporting_tables()
    assert world.reported("outcome, spark_usd, merge_usd IS NULL") == [
        ("published", pytest.approx(0.3), False),
        ("failed", pytest.approx(0.3), True),
        ("published", None, False),
    ]


def test_a_table_that_cannot_be_loaded_stops_no_run_and_is_made_good(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After six hours the watchdog reports it once, as an incident of no feed, until the rows are loaded."""
    world.fail_jobs(f"{world.feed.feed}-.*-ledger-", reason="rateLimitExceeded", times=1000)
    world.publish(world.land(7, [row(7, 1)]))
    assert (world.state.generation, world.state.lease) == (1, None)
    dead = runs.publish(world, world.land(8, [row(8, 1)])).until("resolve")
    assert not dead.end()
    alerts = []
    for hours in (0, 7, 0):
        world.move_clock(timedelta(hours=hours))
        caplog.clear()
        with caplog.at_level("WARNING", logger="dedup_clone.alerts"):
            load_waiting_rows(world, monkeypatch)
        alerts.append([r.getMessage() for r in caplog.records if "dedup_clone_ledger" in r.getMessage()])
    assert [bool(found) for found in alerts] == [False, True, False]
    world.clear_faults()
    world.write_reporting_tables()
    assert (ledger(world), status(world)) == ([1, 2], [1])
    assert "dedup_clone_ledger" not in operations.late_tables(world)


def test_a_row_is_tried_again_after_pauses_that_double_and_a_damaged_one_holds_up_no_other(
    world: FeedOnStandIn,
) -> None:
    world.fail_jobs(f"{world.feed.feed}-.*-ledger-", reason="rateLimitExceeded", times=1000)
    world.publish(world.land(7, [row(7, 1)]))
    began = len(load_jobs(world))
    for seconds in (0, 330, 0, 300, 0):
        world.move_clock(timedelta(seconds=seconds))
        world.load_ledger_rows()
    assert (began, len(load_jobs(world))) == (1, 3)
    world.clear_faults()
    world.storage.bucket(world.places.state).blob("_reporting/ledger/a/1.json").upload_from_string("{")
    world.move_clock(timedelta(hours=1))
    world.load_ledger_rows()
    assert (ledger(world), status(world)) == ([1], [1])


def load_jobs(world: FeedOnStandIn) -> list[str]:
    return [job.job_id for job in world.jobs() if f"{world.feed.feed}-" in job.job_id and "-ledger-" in job.job_id]


def test_a_dropped_table_is_made_again_and_a_column_that_it_lacks_is_added(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.write_reporting_tables()
    columns = {field.name for field in world.bigquery.get_table("warehouse.dedup_clone_ledger").schema}
    for table in ("status", "ledger"):
        world.bigquery.delete_table(f"warehouse.dedup_clone_{table}")
    phases = SchemaField("phases", "RECORD", "REPEATED", fields=[SchemaField("name", "STRING")])
    world.bigquery.create_table(
        Table("local-dev.warehouse.dedup_clone_ledger", schema=[SchemaField("feed", "STRING"), phases])
    )
    world.query(f"INSERT INTO .dedup_clone_ledger (feed) VALUES ('{world.feed.feed}')")
    world.publish(world.land(8, [row(8, 1)]))
    world.write_reporting_tables()
    found = {field.name: {inner.name for inner in field.fields} for field in _ledger_schema(world)}
    assert all(_descriptions(_ledger_schema(world)))
    assert (set(found), found["phases"]) == (columns, {"name", "seconds"})
    assert ([g for (g,) in world.reported("generation")], status(world)) == ([None, 2], [2])


@pytest.mark.timeout(100)  # the client alone would ask for a refused statement's result for ten minutes
@pytest.mark.parametrize("nth", [1, 2], ids=["partitions", "view"])
def test_a_statement_that_is_refused_for_its_rate_holds_up_no_commit(world: FeedOnStandIn, nth: int) -> None:
    world.bigquery.delete_table("warehouse.dedup_clone_status", not_found_ok=True)
    run = runs.publish(world, world.land(7, [row(7, 1)])).until("swap")
    match = {"job_type": "query"}
    world.add_fault({"match": match, "effect": "error", "reason": "rateLimitExceeded", "nth": nth, "times": 1})
    run.step("commit")
    world.clear_faults()
    assert (ledger(world), status(world)) == ([1], [1])


def _ledger_schema(world: FeedOnStandIn) -> list[SchemaField]:
    return list(world.bigquery.get_table("warehouse.dedup_clone_ledger").schema)


@pytest.mark.parametrize("dies", [True, False], ids=["dies", "sleeps"])
def test_whoever_dies_or_sleeps_in_the_commit_each_row_is_added_once(world: FeedOnStandIn, dies: bool) -> None:
    """After a death the task is tried again, or the watchdog adds the rows."""
    for number in count(1, times(3, 1)):
        feed = FeedOnStandIn(new_feed("dies_"), world.storage, world.bigquery)
        run = runs.publish(feed, feed.land(7, [row(7, 1)])).until("swap")
        commit = partial(run.step, "commit")
        if dies:
            is_reached = kill_before_write(number, commit)
            if is_reached:
                commit() if number % 2 else operations.recover_lease(feed)
        else:
            with asleep_before_write(number, feed.write_reporting_tables) as woken:
                commit()
            is_reached = bool(woken)
        feed.write_reporting_tables()
        assert (ledger(feed), status(feed)) == ([1], [1]), number
        if not is_reached:
            break
    assert number > 6


def test_feeds_that_commit_at_once_are_reported_though_bigquery_refuses_some_loads(tmp_path: Path) -> None:
    with open_clients(tmp_path) as clients:  # with BigQuery's limits
        worlds = [FeedOnStandIn(new_feed("at_once_"), *clients) for _ in range(FEEDS_AT_ONCE)]
        swapped = [runs.publish(one, one.land(7, [row(7, 1)])).until("swap") for one in worlds]
        with ThreadPoolExecutor(FEEDS_AT_ONCE) as pool:
            records = list(pool.map(lambda run: run.finish(), swapped))
        assert [r.generation for r in records] == [1] * FEEDS_AT_ONCE
        assert worlds[0].state_of("_reporting").names("ledger/")
        worlds[0].pass_time(timedelta(seconds=10))
        worlds[0].write_reporting_tables(sleep=lambda seconds: worlds[0].pass_time(timedelta(seconds=seconds)))
        for one in worlds:
            assert (one.state.lease, ledger(one), status(one)) == (None, [1], [1])
