"""The main job on the real local stack: whatever lands, however it lands, is published once and right.

Each story is the life of one feed, or of a few. Several go on at once, because Airflow waits more than it works.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date, timedelta
from typing import Any

import pytest
from google.cloud.bigquery import Client as BigQuery

from testkit.oracle import OracleDelivery, OracleState, OracleTable, comparable_change
from testkit.stack import Stack
from testkit.stack_snapshots import COLUMNS, Row, as_tuples, files_of_snapshot, row
from testkit.waiting import wait_for
from tests.e2e.feeds import BOUNDED, ENGINES, EXAMPLE, RETENTION_DAY, TODAY, WITH_CHANGES, YESTERDAY
from tests.e2e.landed_deliveries import wait_for_rows

pytestmark = pytest.mark.timeout(1800)

AT_ONCE = 3  # stories
DAYS = [TODAY - timedelta(days=n) for n in range(3)]
TABLE = OracleTable("date", "update_id", ("date", "product_id", "store_id", "attribute_id"), ("attr_value",))


def states_after(*snapshots: list[Row]) -> list[OracleState]:
    """The oracle's tables after a publish of each of these snapshots."""
    states = [OracleState(TABLE)]
    for rows in snapshots:
        states.append(states[-1].apply([OracleDelivery(rows[0]["update_id"], rows)], RETENTION_DAY))
    return states[1:]


def tuples(state: OracleState) -> list[tuple[object, ...]]:
    return as_tuples(list(state.rows.values()))


def snapshot(snapshot_id: int, products: int = 5) -> list[Row]:
    """Every value is the snapshot's own."""
    return [row(TODAY, product, snapshot_id * 10 + product, snapshot_id) for product in range(products)]


def tries(stack: Stack, run_id: str) -> dict[str, int]:
    return {task.task_id: task.try_number for task in stack.tasks(EXAMPLE, run_id)}


def deliveries_come_in_many_ways(stack: Stack) -> None:
    first = [row(TODAY, 1, 10, 11), row(TODAY, 2, 20, 11), row(YESTERDAY, 3, 30, 11)]
    corrected = [row(TODAY, 1, 5, 11), *first[1:]]  # a value is corrected downward
    second = [row(TODAY, 1, 6, 12), row(TODAY, 4, 40, 12)]
    runs = [stack.land(EXAMPLE, 11, first)]
    stack.assert_published(EXAMPLE, *runs)
    assert stack.rows(EXAMPLE) == as_tuples(first)
    assert tries(stack, runs[0])["load_staging"] == 1, "it waited for its job, which costs no try"

    # The re-delivery and a new snapshot come close together.
    runs.append(stack.land(EXAMPLE, 11, corrected))
    wait_for(lambda: runs[1] in stack.run_ids(EXAMPLE), "the re-delivery has a run")
    runs.append(stack.land(EXAMPLE, 12, second))
    stack.assert_published(EXAMPLE, *runs)
    assert stack.run_ids(EXAMPLE) == sorted(runs)
    right = tuples(states_after(corrected, second)[-1])
    assert stack.rows(EXAMPLE) == right

    bad = stack.land(EXAMPLE, 21, [row(TODAY, 1, 1, 22)])
    assert stack.wait_for_run(EXAMPLE, bad) == "failed"
    assert stack.rows(EXAMPLE) == right
    states = stack.task_states(EXAMPLE, bad)
    assert [task for task, state in states.items() if state == "failed"] == ["dedup_snapshot"], states
    assert tries(stack, bad)["dedup_snapshot"] == 1, "no retry helps"
    assert "update_id" in stack.task_log(EXAMPLE, bad, "dedup_snapshot")
    stack.assert_published(EXAMPLE, stack.land(EXAMPLE, 23, [row(TODAY, 1, 2, 23)]))
    after_all = stack.rows(EXAMPLE)
    assert (TODAY, 1, 2072, 1, 2, 23) in after_all
    wait_for_rows(stack, f"SELECT snapshot_id FROM warehouse.dedup_clone_status WHERE feed = '{EXAMPLE}'", [23])

    stack.assert_published(EXAMPLE, stack.start(f"{EXAMPLE}_publish", snapshot_id="23", reason="to be sure"))
    unknown = stack.start(f"{EXAMPLE}_publish", snapshot_id="99", reason="a mistake")
    assert stack.wait_for_run(EXAMPLE, unknown) == "failed"
    log = stack.task_log(EXAMPLE, unknown, "resolve_publish")
    assert "99" in log
    assert "11, 12, 21, 23" in log, "which can be replayed"
    assert stack.rows(EXAMPLE) == after_all


Change = tuple[int, int, list[Any]]  # generation, snapshot id, and the row as `comparable_change` gives it


def stored_changes(bigquery: BigQuery, name: str, table: OracleTable) -> list[Change]:
    """The sorted rows of the table of changes `name` (with its dataset). `table`: the columns of the feed's table."""
    found = [dict(row.items()) for row in bigquery.query_and_wait(f"SELECT * FROM {name}")]
    assert all(table.key(row) == table.key(row["new_row"]) for row in found)
    return sorted(
        (
            row["generation"],
            row["snapshot_id"],
            comparable_change(table, row["change_type"], row["old_row"], row["new_row"]),
        )
        for row in found
    )


def expected_changes(
    before: OracleState, after: OracleState, *, generation: int, snapshot_id: int, retention_day: date
) -> list[Change]:
    """The rows that a publish must add to the table of changes, sorted. `before`, `after`: the table's content."""
    changes = after.changes_since(before, retention_day)
    return sorted(
        (generation, snapshot_id, comparable_change(after.table, change.kind, change.old, change.new))
        for change in changes
    )


def snapshots_are_copied_by_hand(stack: Stack) -> None:
    """With Google's command line tools if they are installed. The feed has a table of changes."""
    chance = random.Random(4)
    first = [row(day, product, chance.randrange(100), 5001) for day in DAYS for product in range(700)]
    second = [
        {**r, "update_id": 5002, "attr_value": r["attr_value"] + (chance.random() < 0.01)}
        for r in first
        if chance.random() > 0.01
    ] + [row(TODAY, product, 7, 5002) for product in range(9000, 9010)]
    for snapshot_id, rows in ((5001, first), (5002, second)):
        copy(stack, WITH_CHANGES, snapshot_id, rows)
        stack.assert_published(WITH_CHANGES, stack.mark(WITH_CHANGES, snapshot_id))
    before, after = states_after(first, second)
    assert stack.rows(WITH_CHANGES) == tuples(after)
    target = stack.bigquery.get_table(f"warehouse.{WITH_CHANGES}")
    assert tuple(field.name for field in target.schema) == COLUMNS
    assert target.clustering_fields == ["product_id", "store_id", "attribute_id"]

    generation = stack.current(WITH_CHANGES)["generation"]
    expected = expected_changes(before, after, generation=generation, snapshot_id=5002, retention_day=RETENTION_DAY)
    assert {change[2][1] for change in expected} == {"new", "changed", "missing"}
    assert stored_changes(stack.bigquery, f"warehouse.{WITH_CHANGES}_changes", TABLE) == expected
    assert [record["change_rows"] for record in stack.ledger(WITH_CHANGES)] == [None, len(expected)]
    if shutil.which("bq"):
        shown = json.loads(run_tool(stack, "bq", "show", "--format=json", f"warehouse.{WITH_CHANGES}"))
        assert int(shown["numRows"]) == len(after.rows)
        assert shown["cloneDefinition"]["baseTableReference"]["tableId"] == f"{WITH_CHANGES}_staging"


def copy(stack: Stack, feed: str, snapshot_id: int, rows: list[Row]) -> None:
    folder = stack.layout.local / "copied" / str(snapshot_id)
    for name, content in files_of_snapshot(rows).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        if not shutil.which("gcloud"):
            stack.landing.blob(f"{feed}/snapshot_id={snapshot_id}/{name}").upload_from_filename(folder / name)
    if shutil.which("gcloud"):
        target = f"gs://landing/{feed}/snapshot_id={snapshot_id}"
        run_tool(stack, "gcloud", "storage", "rsync", "-r", str(folder), target)


def run_tool(stack: Stack, *command: str) -> str:
    """Run a tool that finds the stack by the variables of stack.env. Returns what it wrote to stdout."""
    environment = {**os.environ, **stack.variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


def a_failed_check_is_accepted_and_its_publish_rolled_back(stack: Stack) -> None:
    """A replay waits for a person, who may refuse; the reason is kept. Then three people ask at once for a rollback."""
    feed, rows = BOUNDED, snapshot(2, 6)
    stack.assert_published(feed, stack.land(feed, 1, snapshot(1)))
    good, good_rows = stack.current(feed)["generation"], as_tuples(snapshot(1))
    second = stack.land(feed, 2, rows)
    assert stack.wait_for_run(feed, second) == "failed"
    assert "changed_share" in stack.task_log(feed, second, "check_staging")
    for option in ("Reject", "Approve"):
        form = {"snapshot_id": "2", "accepted_checks": ["changed_share"], "reason": "prices were raised today"}
        question = stack.wait_for_question(feed, stack.start(f"{feed}_publish", **form))
        assert "changed_share" in question.text
        assert "prices were raised today" in question.text
        assert stack.rows(feed) == good_rows
        assert question.answer(option, user="vera") == 403
        assert question.decide(option) == "success", stack.task_states(feed, question.run_id)
    assert stack.rows(feed) == as_tuples(rows)
    assert stack.ledger(feed)[-1]["reason"] == "prices were raised today (asked by admin)"
    roll_back_three_times_at_once(stack, feed, good)
    assert stack.rows(feed) == good_rows


def roll_back_three_times_at_once(stack: Stack, feed: str, good: int) -> None:
    """To generation `good`: one rollback is made, one is refused, and one is rejected. Then to one that never was."""
    regretted, dag_id = stack.current(feed)["generation"], f"{feed}_rollback"
    runs = [stack.start(dag_id, generation=good, reason="the test regrets it") for _ in range(3)]
    questions = [stack.wait_for_question(feed, run, "rollback") for run in runs]
    assert all(f"from generation {regretted} to the content of {good}" in question.text for question in questions)
    pattern = f"response_received=false&limit=100&subject_search={feed}:"  # as the page asks
    waiting = stack.ask("GET", f"api/v2/dags/~/dagRuns/~/hitlDetails?{pattern}").json()["hitl_details"]
    assert {(one["task_instance"]["dag_run_id"], one["task_instance"]["state"]) for one in waiting} == {
        (run, "awaiting_input") for run in runs
    }
    assert questions[0].answer("Approve", user="vera") == 403
    options = ("Approve", "Approve", "Reject")
    assert [question.answer(option) for question, option in zip(questions, options, strict=True)] == [200] * 3
    ends = [question.wait_for_end(option) for question, option in zip(questions, options, strict=True)]
    assert sorted(ends[:2]) == ["failed", "success"]
    log = stack.task_log(feed, runs[ends.index("failed")], "resolve_rollback", "rollback")
    assert "is live by now" in log or "is being worked on by run" in log
    assert stack.task_states(feed, runs[2], "rollback")["resolve_rollback"] == "skipped"
    assert stack.ledger(feed)[-1]["restores"] == good
    assert stack.current(feed)["generation"] == regretted + 1

    unknown = stack.start(dag_id, generation=1_000_000, reason="a mistake")
    assert stack.wait_for_run(feed, unknown, "rollback") == "failed"
    log = stack.task_log(feed, unknown, "show_difference", "rollback")
    assert f"{good} (snapshot " in log, "which can be made live again"


def each_engine_publishes(stack: Stack) -> None:
    """One of the feeds runs Spark in a stored procedure. Two may have rows of products with one digit."""
    first, second = ([row(TODAY, 100, number, number), row(TODAY, number, 7, number)] for number in (101, 102))
    for number, rows in ((101, first), (102, second)):
        runs = {feed: stack.land(feed, number, rows) for feed in ENGINES}
        for feed, run_id in runs.items():
            stack.assert_published(feed, run_id)
            assert set(as_tuples(rows)) <= set(stack.rows(feed))
    for feed, engine in ENGINES.items():
        assert [found for found in stack.rows(feed) if found[1] >= 100] == as_tuples([*second, first[1]])
        last = stack.ledger(feed)[-1]
        assert last["engine"] == engine
        assert (last["cost"]["streamed_bytes"] > 0) == (engine == "cdc")
    calls = "SELECT COUNT(*) AS n FROM `region-us`.INFORMATION_SCHEMA.JOBS WHERE statement_type = 'CALL'"
    assert [found["n"] for found in stack.query(calls)] >= [2]


STORIES: tuple[Callable[[Stack], None], ...] = (
    deliveries_come_in_many_ways,
    snapshots_are_copied_by_hand,
    a_failed_check_is_accepted_and_its_publish_rolled_back,
    each_engine_publishes,
)


@pytest.fixture(scope="module", autouse=True)
def told(stack: Stack) -> Iterator[dict[str, Future[None]]]:
    """All stories, begun before the first test."""
    pool = ThreadPoolExecutor(AT_ONCE)
    yield {story.__name__: pool.submit(story, stack) for story in STORIES}
    pool.shutdown(wait=False, cancel_futures=True)


def test_airflow_shows_no_import_error(stack: Stack) -> None:
    assert stack.airflow.import_errors() == []


@pytest.mark.parametrize(
    ("dag", "parameters"),
    [
        ("rollback", {"generation": "two"}),
        ("rollback", {"generation": 0}),
        ("rollback", {"reason": "why", "generation": None}),
        ("publish", {"snapshot_id": "newest"}),
        ("publish", {"snapshot_id": "1", "marker_generation": "x; DROP TABLE"}),
    ],
    ids=str,
)
def test_text_where_an_id_belongs_starts_no_run(stack: Stack, dag: str, parameters: dict[str, object]) -> None:
    answer = stack.trigger(f"{BOUNDED}_{dag}", **parameters)
    assert answer.status == 400, answer.text
    assert list(parameters)[-1] in answer.text


def test_many_actions_at_once_are_answered_while_tasks_run(stack: Stack) -> None:
    """Airflow notes each action in its database before it does it: with one writer at a time they block each other."""
    dags = [f"{feed}_{dag}" for feed in (EXAMPLE, WITH_CHANGES) for dag in ("watch", "publish")]

    def unpause(number: int) -> int:
        return stack.ask("PATCH", f"api/v2/dags/{dags[number % len(dags)]}", body={"is_paused": False}).status

    with ThreadPoolExecutor(8) as people:
        assert set(people.map(unpause, range(400))) == {200}


@pytest.mark.parametrize("story", [story.__name__ for story in STORIES])
def test_story(told: dict[str, Future[None]], story: str) -> None:
    told[story].result()


def test_no_query_of_a_publish_with_spark_reads_table_data(told: dict[str, Future[None]], stack: Stack) -> None:
    for future in told.values():
        future.exception()
    feeds = [feed.replace("_", "-") for feed in (EXAMPLE, WITH_CHANGES, BOUNDED)]
    jobs = [j for j in stack.bigquery.list_jobs(all_users=True) if (j.labels or {}).get("dedup-clone-feed") in feeds]
    assert {j.labels["dedup-clone-step"] for j in jobs} == {"load", "swap", "changes"}
    assert [j.job_id for j in jobs if j.job_type == "query" and j.total_bytes_processed] == []
