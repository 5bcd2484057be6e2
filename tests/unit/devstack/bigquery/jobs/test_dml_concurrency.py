"""Statements that change a table at the same time: snapshots, conflicts, retries and the queue of a table.

Source: "Using data manipulation language (DML)", concurrent jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from devstack.bigquery.bigquery_errors import ResourcesExceeded, StoppedJob
from devstack.bigquery.clock import HOUR_US, Clock
from devstack.bigquery.jobs import ddl_statements, dml_queue, dml_runner
from devstack.bigquery.jobs.dml_queue import (
    MAXIMUM_RUNNING,
    MAXIMUM_RUNNING_INSERTS,
    MAXIMUM_WAITING,
    MAXIMUM_WAITING_INSERTS,
    UNQUEUED_INSERTS_PER_DAY,
    DmlQueue,
)
from devstack.bigquery.storage.model import TableId
from testkit.waiting import wait_for
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse

T = TableId("local-dev", "d", "t")
WAIT_S = 30


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    found = Warehouse(tmp_path)
    found.statistics(
        "CREATE SCHEMA d; CREATE TABLE d.t (day DATE, v INT64) PARTITION BY day; "
        "INSERT d.t VALUES (DATE '2026-01-01', 1), (DATE '2026-01-01', 2), (DATE '2026-01-02', 3)"
    )
    return found


@pytest.fixture
def meanwhile(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], list[int]]:
    """Runs a statement between the reads and the commit of another one, in each of its first attempts."""
    attempts: list[int] = []

    def arrange(sql: str, times: int) -> list[int]:
        original, inside = dml_runner.write_partitions, threading.Lock()

        def interrupted(*arguments: Any) -> Any:
            if inside.acquire(blocking=False):
                attempts.append(1)
                if len(attempts) <= times:
                    warehouse.statistics(sql)
                inside.release()
            return original(*arguments)

        monkeypatch.setattr(dml_runner, "write_partitions", interrupted)
        return attempts

    return arrange


def wait_until(condition: Callable[[], bool]) -> None:
    wait_for(condition, "the statements are where they should be", WAIT_S, poll_interval_s=0.01)


def values(warehouse: Warehouse) -> list[int]:
    return sorted(row[1] for row in warehouse.rows("d.t"))


def test_conflicting_statement_runs_again_on_the_newer_rows(
    warehouse: Warehouse, meanwhile: Callable[[str, int], list[int]]
) -> None:
    attempts = meanwhile("UPDATE d.t SET v = v + 10 WHERE day = DATE '2026-01-01'", 2)
    warehouse.statistics("UPDATE d.t SET v = v + 100 WHERE v < 3 OR v BETWEEN 10 AND 99")
    assert (values(warehouse), len(attempts)) == ([3, 121, 122], 3)


def test_statement_gives_up_after_its_retries(warehouse: Warehouse, meanwhile: Callable[[str, int], list[int]]) -> None:
    attempts = meanwhile("UPDATE d.t SET v = v + 1 WHERE day = DATE '2026-01-01'", 99)
    job = warehouse.run("DELETE FROM d.t WHERE day = DATE '2026-01-01' AND v > 0")
    assert job.error is not None
    assert job.error["reason"] == "invalidQuery"
    assert "Could not serialize access to table local-dev:d.t due to concurrent update" in job.error["message"]
    assert len(attempts) == 1 + dml_runner.MAXIMUM_RETRIES
    assert values(warehouse) == [3, 5, 6]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("UPDATE d.t SET v = 30 WHERE day = DATE '2026-01-02'", [30, 101, 102]),
        ("INSERT d.t VALUES (DATE '2026-01-01', 7)", [3, 7, 101, 102]),
        ("ALTER TABLE d.t SET OPTIONS (description = 'new')", [3, 101, 102]),
    ],
)
def test_other_partitions_inserts_and_options_are_no_conflict(
    warehouse: Warehouse, meanwhile: Callable[[str, int], list[int]], sql: str, expected: list[int]
) -> None:
    """Rows inserted after the snapshot stay, unchanged."""
    attempts = meanwhile(sql, 1)
    warehouse.statistics("UPDATE d.t SET v = v + 100 WHERE day = DATE '2026-01-01'")
    assert (values(warehouse), len(attempts)) == (expected, 1)


def test_replaced_table_is_a_conflict(warehouse: Warehouse, meanwhile: Callable[[str, int], list[int]]) -> None:
    meanwhile("CREATE OR REPLACE TABLE d.t (day DATE, v INT64) PARTITION BY day", 1)
    assert warehouse.statistics("DELETE FROM d.t WHERE v > 0")["dmlStats"] == {"deletedRowCount": "0"}


def test_statement_that_changes_nothing_makes_no_version(warehouse: Warehouse) -> None:
    before = warehouse.stand_in.catalog.get(T)
    warehouse.statistics("UPDATE d.t SET v = 0 WHERE v > 99")
    assert warehouse.stand_in.catalog.get(T).number == before.number


def test_statement_for_a_full_queue_is_refused_at_once(tmp_path: Path) -> None:
    queue, stop, done = DmlQueue(Clock(tmp_path / "clock.json")), threading.Event(), threading.Event()
    inside, most = [0], [0]
    counting = threading.Lock()

    def work() -> None:
        with queue.admit(T, stop):
            with counting:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            done.wait(WAIT_S)
            with counting:
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(MAXIMUM_RUNNING + MAXIMUM_WAITING)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(queue._mutation_queues[T].waiting) == MAXIMUM_WAITING and inside[0] == MAXIMUM_RUNNING)
    with pytest.raises(ResourcesExceeded, match="limit is 20"), queue.admit(T, stop):
        pass
    with queue.admit(TableId("local-dev", "d", "other"), stop):
        pass
    done.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert (inside[0], most[0]) == (0, MAXIMUM_RUNNING)


def test_statement_waits_seven_hours_at_most(tmp_path: Path) -> None:
    """ "Quotas and limits", data manipulation language: maximum time in queue."""
    clock = Clock(tmp_path / "clock.json")
    queue, stop = DmlQueue(clock), threading.Event()

    def advance() -> None:
        wait_until(lambda: bool(queue._mutation_queues[T].waiting))
        clock.advance(7 * HOUR_US + 1)

    with queue.admit(T, stop), queue.admit(T, stop):
        threading.Thread(target=advance).start()
        with pytest.raises(ResourcesExceeded, match="seven hours"), queue.admit(T, stop):
            pass


def test_cancelled_statement_leaves_the_queue(tmp_path: Path) -> None:
    queue, stop, running = DmlQueue(Clock(tmp_path / "clock.json")), threading.Event(), threading.Event()
    with queue.admit(T, running), queue.admit(T, running):
        stop.set()
        with pytest.raises(StoppedJob), queue.admit(T, stop):
            pass
    with queue.admit(T, running):
        assert not queue._mutation_queues[T].waiting


def test_inserts_wait_only_after_the_first_ones_of_a_day(tmp_path: Path) -> None:
    """ "Data manipulation language", INSERT DML concurrency."""
    before = [UNQUEUED_INSERTS_PER_DAY - 12]
    queue, stop = DmlQueue(Clock(tmp_path / "clock.json"), lambda table: before[0]), threading.Event()
    with ExitStack() as running:
        for _ in range(12):
            running.enter_context(queue.admit_insert(T, stop))  # more than ten at once
        stop.set()
        with pytest.raises(StoppedJob), queue.admit_insert(T, stop):  # it would wait
            pass
    stop.clear()
    before[0] = UNQUEUED_INSERTS_PER_DAY
    with ExitStack() as running:
        for _ in range(MAXIMUM_RUNNING_INSERTS):
            running.enter_context(queue.admit_insert(T, stop))
        with queue.admit(T, stop):  # the queue of UPDATE, DELETE and MERGE is another one
            pass
        cancel = threading.Event()

        def wait() -> None:
            with pytest.raises(StoppedJob), queue.admit_insert(T, cancel):
                pass

        threads = [threading.Thread(target=wait) for _ in range(MAXIMUM_WAITING_INSERTS)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(queue._insert_queues[T].waiting) == MAXIMUM_WAITING_INSERTS)
        with pytest.raises(ResourcesExceeded, match="limit is 100"), queue.admit_insert(T, stop):
            pass
        cancel.set()
        for thread in threads:
            thread.join(WAIT_S)


def test_inserts_of_the_last_24_hours_count(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = warehouse.stand_in.queries._dml_queue
    assert queue._inserts_of_day(T) == 1
    monkeypatch.setattr(dml_queue, "UNQUEUED_INSERTS_PER_DAY", 1)
    with ExitStack() as running:
        for _ in range(MAXIMUM_RUNNING_INSERTS):
            running.enter_context(queue.admit_insert(T, threading.Event()))
        jobs = [
            warehouse.start("INSERT d.t VALUES (DATE '2026-01-03', 9)"),
            warehouse.start("INSERT d.t VALUES (DATE '2026-01-03', 9); SELECT 1"),
        ]
        wait_until(lambda: len(queue._insert_queues[T].waiting) == len(jobs))
        view = warehouse.view(
            "SELECT job_id, destination_table.table_id FROM `region-us`.INFORMATION_SCHEMA.JOBS "
            "WHERE state = 'PENDING' AND start_time IS NULL ORDER BY creation_time"
        )
        child = f"script_job_{jobs[1].job_id}_0"
        assert view == [(jobs[0].job_id, "t"), (child, "t")]
        warehouse.stand_in.clock.advance(60 * 1_000_000)
    done = [warehouse.wait(job) for job in jobs]
    assert [job.error for job in done] == [None, None]
    (waited,) = warehouse.view(
        "SELECT MIN(TIMESTAMP_DIFF(start_time, creation_time, SECOND)) FROM `region-us`.INFORMATION_SCHEMA.JOBS "
        f"WHERE job_id IN ('{jobs[0].job_id}', '{child}')"
    )
    assert waited[0] >= 60
    warehouse.stand_in.clock.advance(24 * HOUR_US)
    assert queue._inserts_of_day(T) == 0


@pytest.mark.parametrize("definition", ["CLONE d.t", "(v INT64)", "AS SELECT 1 AS v"])
def test_of_two_statements_with_if_not_exists_one_creates_the_table(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, definition: str
) -> None:
    """Page: "Data definition language", CREATE TABLE: with IF NOT EXISTS it has no effect if the table exists."""
    sql, operations, first = f"CREATE TABLE IF NOT EXISTS d.u {definition}", list[str](), threading.Lock()
    original = ddl_statements.evaluate_options

    def after_the_same_statement(*arguments: Any) -> Any:
        if first.acquire(blocking=False):
            operations.append(warehouse.statistics(sql)["ddlOperationPerformed"])
        return original(*arguments)

    monkeypatch.setattr(ddl_statements, "evaluate_options", after_the_same_statement)
    operations.append(warehouse.statistics(sql)["ddlOperationPerformed"])
    assert operations == ["CREATE", "SKIP"]
