"""UPDATE, DELETE and MERGE of random tables and clauses have the same result as a plain loop over the rows.

Statements that change a table at the same time lose nothing. Source: "Using data manipulation language (DML)".
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from datetime import date
from functools import cache
from random import Random
from typing import Any

import duckdb
import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery import QueryJob

from testkit.waiting import wait_for
from tests.bigquery_standin.warehouse import Warehouse
from tests.thoroughness import seeds

Row = tuple[Any, Any, Any]  # day, k, v
DAYS = (date(2026, 1, 1), date(2026, 1, 2), None)
TOO_MANY = "must match at most one source row"
ON = ("t.k = s.k", "t.day = s.day AND t.k = s.k", "t.v < s.v", "s.k = 1 AND t.k = 1", "FALSE")
OF_TARGET = ("t.v > 1", "t.v IS NULL", "t.day = DATE '2026-01-01'", "TRUE")
OF_SOURCE = ("s.v > 1", "s.k = 0", "TRUE")
OF_BOTH = (*OF_TARGET, *OF_SOURCE, "t.v = s.v")


@cache
def holds(condition: str, *rows: Row | None) -> bool:
    """Whether an SQL condition is true for a target row t and a source row s, of which one may be missing."""
    row = "SELECT ?::DATE AS day, ?::BIGINT AS k, ?::BIGINT AS v"
    values = [value for found in rows for value in found or (None, None, None)]
    return duckdb.execute(f"SELECT {condition} FROM ({row}) AS t, ({row}) AS s", values).fetchall() == [(True,)]


@dataclass(frozen=True)
class Clause:
    kind: str
    condition: str
    action: str

    def sql(self) -> str:
        values = {
            "update": "UPDATE SET v = s.v, day = s.day" if self.kind == "MATCHED" else "UPDATE SET v = t.k + 10",
            "delete": "DELETE",
            "insert": "INSERT (v, k, day) VALUES (s.v, s.k + 100, s.day)",
        }
        return f"WHEN {self.kind} AND {self.condition} THEN {values[self.action]}"


KINDS = {
    "MATCHED": (OF_BOTH, ("update", "delete")),
    "NOT MATCHED BY SOURCE": (OF_TARGET, ("update", "delete")),
    "NOT MATCHED BY TARGET": (OF_SOURCE, ("insert",)),
}


def random_clause(random: Random) -> Clause:
    kind = random.choice(list(KINDS))
    conditions, actions = KINDS[kind]
    return Clause(kind, random.choice(conditions), random.choice(actions))


def random_rows(random: Random) -> list[Row]:
    return [
        (random.choice(DAYS), random.randrange(4), random.choice([None, 0, 1, 2, 3]))
        for _ in range(random.randrange(7))
    ]


def first_that_holds(found: list[Clause], kind: str, target: Any, source: Any) -> str | None:
    return next((c.action for c in found if c.kind == kind and holds(c.condition, target, source)), None)


def merged(target: list[Row], source: list[Row], on: str, found: list[Clause]) -> tuple[list[Row], list[int]] | None:
    """The rows after MERGE, and the counts of inserted, updated and deleted rows. None if BigQuery refuses."""
    after: list[Row] = []
    inserted = updated = deleted = 0
    for t in target:
        matches = [s for s in source if holds(on, t, s)]
        acts = [(action, s) for s in matches if (action := first_that_holds(found, "MATCHED", t, s)) is not None]
        if len(acts) > 1:
            return None
        if not matches and (alone := first_that_holds(found, "NOT MATCHED BY SOURCE", t, None)) is not None:
            acts = [(alone, None)]  # type: ignore[list-item]
        if not acts:
            after.append(t)
        elif acts[0][0] == "delete":
            deleted += 1
        else:
            s = acts[0][1]
            after.append((t[0], t[1], t[1] + 10) if s is None else (s[0], t[1], s[2]))
            updated += 1
    for s in source:
        if not any(holds(on, t, s) for t in target):
            action = first_that_holds(found, "NOT MATCHED BY TARGET", None, s)
            if action is not None:
                after.append((s[0], s[1] + 100, s[2]))
                inserted += 1
    return after, [inserted, updated, deleted]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Tables t, with partitions, and s."""
    found = Warehouse(tmp_path_factory.mktemp("stand_in"))
    found.client.create_dataset("d")
    found.job(
        "CREATE TABLE d.t (day DATE, k INT64, v INT64) PARTITION BY day; CREATE TABLE d.s (day DATE, k INT64, v INT64)"
    )
    return found


def put(warehouse: Warehouse, table: str, content: list[Row]) -> None:
    """Replace the content by two INSERTs, so that partitions have several files."""
    statements = [f"TRUNCATE TABLE {table}"]
    for part in filter(None, (content[::2], content[1::2])):
        rows = ", ".join(f"({day and repr(str(day))}, {k}, {v})" for day, k, v in part)
        statements.append(f"INSERT {table} VALUES {rows}".replace("None", "NULL"))
    warehouse.job("; ".join(statements))


def content(warehouse: Warehouse) -> Counter[Any]:
    return Counter(warehouse.rows("SELECT * FROM d.t"))


@pytest.mark.parametrize("seed", seeds(25))
def test_merge_does_what_a_loop_over_the_rows_does(tables: Warehouse, seed: int) -> None:
    random = Random(seed)
    target, source, on = random_rows(random), random_rows(random), random.choice(ON)
    clauses = [random_clause(random) for _ in range(random.randrange(1, 5))]
    put(tables, "d.t", target)
    put(tables, "d.s", source)
    expected = merged(target, source, on, clauses)
    sql = f"MERGE d.t AS t USING d.s AS s ON {on} {' '.join(clause.sql() for clause in clauses)}"
    if expected is None:
        assert TOO_MANY in tables.refusal(sql)[1]
        assert content(tables) == Counter(target)
        return
    counts = tables.statistics(sql)["dmlStats"]
    assert [int(counts[f"{kind}RowCount"]) for kind in ("inserted", "updated", "deleted")] == expected[1]
    assert content(tables) == Counter(expected[0])


@pytest.mark.parametrize("seed", seeds(10))
def test_update_and_delete_do_what_a_loop_over_the_rows_does(tables: Warehouse, seed: int) -> None:
    random = Random(seed)
    target, changed = random_rows(random), random.choice(OF_TARGET)
    put(tables, "d.t", target)
    job = tables.job(f"UPDATE d.t AS t SET v = t.k + 7, t.k = k + 1 WHERE {changed}")
    after = [(t[0], t[1] + 1, t[1] + 7) if holds(changed, t, None) else t for t in target]
    assert job.num_dml_affected_rows == sum(holds(changed, t, None) for t in target)
    assert content(tables) == Counter(after)
    where = random.choice(OF_TARGET)
    tables.job(f"DELETE FROM d.t AS t WHERE {where}")
    assert content(tables) == Counter(row for row in after if not holds(where, row, None))


def test_simultaneous_statements_wait_or_fail_and_lose_no_change(warehouse: Warehouse) -> None:
    """A statement that finds its table changed runs again on the newer rows, and fails after some tries."""
    warehouse.job(
        "CREATE TABLE d.t (day DATE, k INT64, v INT64) PARTITION BY day; "
        "INSERT d.t VALUES (DATE '2026-01-01', 1, 0), (DATE '2026-01-02', 2, 0)"
    )
    added, refused = Counter[int](), list[str]()

    def work(k: int) -> None:
        for number in range(4):
            try:
                warehouse.job(f"UPDATE d.t SET v = v + 1 WHERE day = DATE '2026-01-0{k}'")
                added[k] += 1
            except GoogleAPICallError as error:
                refused.append(str(error))
            warehouse.job(f"INSERT d.t VALUES (DATE '2026-01-0{k}', {10 * k + number}, NULL)")

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(warehouse.rows("SELECT k, v FROM d.t WHERE k < 10")) == dict(added)
    assert sum(added.values()) + len(refused) == 12
    assert all("Could not serialize access" in text for text in refused)
    assert warehouse.rows("SELECT COUNT(*) FROM d.t") == [(14,)]


def test_a_statement_that_changes_nothing_makes_no_version(warehouse: Warehouse) -> None:
    warehouse.job("CREATE TABLE d.t AS SELECT 1 AS v")
    before = warehouse.client.get_table("d.t").etag
    warehouse.job("UPDATE d.t SET v = 0 WHERE v > 99")
    assert warehouse.client.get_table("d.t").etag == before


def test_two_statements_of_a_table_run_and_others_wait_until_they_run_or_are_cancelled(warehouse: Warehouse) -> None:
    """Source: UPDATE, DELETE, MERGE DML concurrency."""
    client = warehouse.client
    warehouse.job("CREATE TABLE d.t (v INT64); INSERT d.t VALUES (1)")
    many = "UNNEST(GENERATE_ARRAY(1, 1000000))"
    endless = f"DELETE FROM d.t WHERE v = (SELECT COUNTIF(a = b) FROM {many} AS a, {many} AS b)"

    def start(sql: str) -> QueryJob:
        return client.query(sql, retry=None, job_retry=None)

    running = []
    for _ in range(2):
        job = start(endless)
        wait_for(lambda job=job: client.get_job(job.job_id).state == "RUNNING", "the statement runs")
        running.append(job)
    waiting = [start("DELETE FROM d.t WHERE v = 1") for _ in range(3)]
    assert {client.get_job(job.job_id).state for job in waiting} == {"PENDING"}
    for job in (waiting[1], *reversed(running)):
        client.cancel_job(job.job_id)
        with pytest.raises(GoogleAPICallError) as ended:
            job.result(retry=None)
        assert ended.value.errors[0]["reason"] == "stopped"
    done = [job.result(retry=None).num_dml_affected_rows for job in waiting if job is not waiting[1]]
    assert sum(done) == 1
