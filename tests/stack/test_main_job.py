"""The main job on the real local stack: whatever lands, however it lands, is published once and right."""

from __future__ import annotations

import json
import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.oracle import OracleDelivery, OracleState, OracleTable
from tests.stack.local_stack import COLUMNS, LocalStack, Row, as_tuples, row, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

TODAY = datetime.now(UTC).date()
DAYS = [TODAY - timedelta(days=n) for n in range(3)]
TABLE = OracleTable("date", "update_id", ("date", "product_id", "store_id", "attribute_id"), ("attr_value",))


def table_after(*snapshots: list[Row]) -> list[tuple[object, ...]]:
    """What the independent oracle says after these snapshots, one publish each."""
    state = OracleState(TABLE)
    for rows in snapshots:
        state = state.apply([OracleDelivery(rows[0]["update_id"], rows)], DAYS[-1] - timedelta(days=700))
    return as_tuples(list(state.rows.values()))


def test_airflow_shows_no_import_error(stack: LocalStack) -> None:
    assert stack.airflow.import_errors() == []


def test_snapshots_copied_by_hand_are_published_right(stack: LocalStack, tmp_path: Path) -> None:
    feed, chance = "product_attributes", random.Random(4)
    first = [row(day, product, chance.randrange(100), 5001) for day in DAYS for product in range(700)]
    second = [
        {**r, "update_id": 5002, "attr_value": r["attr_value"] + (chance.random() < 0.01)}
        for r in first
        if chance.random() > 0.01
    ] + [row(DAYS[0], product, 7, 5002) for product in range(9000, 9010)]
    for snapshot_id, rows in ((5001, first), (5002, second)):
        folder = stack.write_snapshot(tmp_path / str(snapshot_id), rows)
        copy_by_hand(stack, folder, f"gs://landing/{feed}/snapshot_id={snapshot_id}/")
        run_id = stack.mark(feed, snapshot_id)
        assert stack.wait_for_run(feed, run_id) == "success", stack.task_states(feed, run_id)
    assert stack.rows(feed) == table_after(first, second)
    assert_bq_reads_the_same(stack, feed, len(stack.rows(feed)))


def copy_by_hand(stack: LocalStack, folder: Path, target: str) -> None:
    """With the tools that people have; without them, with the client library, which every machine has."""
    dates = [str(path) for path in sorted(folder.iterdir())]
    if shutil.which("gsutil"):
        stack.run_tool("gsutil", "-q", "cp", "-r", *dates, target)
    else:
        for file in sorted(folder.rglob("*.parquet")):
            name = target.removeprefix("gs://landing/") + str(file.relative_to(folder))
            stack.landing.blob(name).upload_from_filename(file)


def assert_bq_reads_the_same(stack: LocalStack, feed: str, rows: int) -> None:
    if not shutil.which("bq"):
        return
    shown = json.loads(stack.run_tool("bq", "show", "--format=json", f"warehouse.{feed}"))
    assert int(shown["numRows"]) == rows
    assert shown["cloneDefinition"]["baseTableReference"]["tableId"] == f"{feed}_staging"
    sql = f"SELECT COUNT(*) AS n, COUNT(DISTINCT product_id) AS products FROM warehouse.{feed}"
    (answer,) = json.loads(stack.run_tool("bq", "query", "--quiet", "--nouse_legacy_sql", "--format=json", sql))
    assert int(answer["n"]) == rows


def test_each_delivery_gets_exactly_one_run_however_it_arrives(stack: LocalStack, tmp_path: Path) -> None:
    feed = "worked_example"
    outage = [row(DAYS[0], 1, 10, 11), row(DAYS[0], 2, 20, 11), row(DAYS[1], 3, 30, 11)]
    redelivered = [row(DAYS[0], 1, 5, 11), row(DAYS[0], 2, 20, 11), row(DAYS[1], 3, 30, 11)]
    second = [row(DAYS[0], 1, 6, 12), row(DAYS[0], 4, 40, 12)]

    stack.stop_airflow()
    runs = [stack.land(feed, 11, outage, tmp_path / "a")]
    stack.start_airflow()
    assert stack.wait_for_run(feed, runs[0]) == "success"
    assert stack.rows(feed) == as_tuples(outage)

    # a re-delivery that corrects a value downward, and a new snapshot, within one minute
    runs.append(stack.land(feed, 11, redelivered, tmp_path / "b"))
    wait_for(lambda: runs[1] in stack.run_ids(feed), "the re-delivery has a run")
    runs.append(stack.land(feed, 12, second, tmp_path / "c"))
    assert [stack.wait_for_run(feed, run) for run in runs] == ["success"] * 3
    assert stack.run_ids(feed) == sorted(runs)
    assert stack.rows(feed) == table_after(redelivered, second)


def test_a_bad_delivery_is_refused_and_the_next_good_one_published(stack: LocalStack, tmp_path: Path) -> None:
    feed = "worked_example"
    before = stack.rows(feed)
    bad = stack.land(feed, 21, [row(DAYS[0], 1, 1, 22)], tmp_path / "bad")
    assert stack.wait_for_run(feed, bad) == "failed"
    assert stack.rows(feed) == before
    states = stack.task_states(feed, bad)
    (failed,) = [task for task, state in states.items() if state == "failed"]
    assert "update_id" in stack.failure_log(feed, bad, failed)
    good = stack.land(feed, 23, [row(DAYS[0], 1, 2, 23)], tmp_path / "good")
    assert stack.wait_for_run(feed, good) == "success"
    assert (DAYS[0], 1, 2072, 1, 2, 23) in stack.rows(feed)


def test_a_replay_by_hand_publishes_the_snapshot_again_and_changes_no_row(stack: LocalStack) -> None:
    feed = "worked_example"
    before = stack.rows(feed)
    run_id = stack.replay(feed, snapshot_id="23", reason="to be sure")
    assert stack.wait_for_run(feed, run_id) == "success", stack.task_states(feed, run_id)
    assert stack.rows(feed) == before


def test_a_replay_of_a_snapshot_that_never_landed_is_refused_with_those_that_did(stack: LocalStack) -> None:
    run_id = stack.replay("worked_example", snapshot_id="99")
    assert stack.wait_for_run("worked_example", run_id) == "failed"
    log = stack.failure_log("worked_example", run_id, "resolve_publish")
    assert "Snapshot [99]" in log
    assert "registered snapshots: 11, 12, 21, 23" in log


def test_no_query_of_a_publish_reads_table_data(stack: LocalStack) -> None:
    jobs = [j for j in stack.bigquery.list_jobs(all_users=True) if "dedup_clone_feed" in (j.labels or {})]
    assert {j.labels["dedup_clone_step"] for j in jobs} == {"load", "swap"}
    assert [j.job_id for j in jobs if j.job_type == "query" and j.total_bytes_processed] == []


def test_readers_learn_from_the_status_table_which_snapshot_they_see(stack: LocalStack) -> None:
    found = {
        r["feed"]: r["snapshot_id"] for r in stack.bigquery.query_and_wait("SELECT * FROM warehouse.dedup_clone_status")
    }
    assert found["worked_example"] == 23
    assert found.get("product_attributes", 5002) == 5002


def test_columns_of_target_are_those_declared(stack: LocalStack) -> None:
    target = stack.bigquery.get_table("warehouse.product_attributes")
    assert tuple(field.name for field in target.schema) == COLUMNS
    assert target.clustering_fields == ["product_id", "store_id", "attribute_id"]
