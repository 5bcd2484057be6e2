"""Streamed upserts and deletes: their order, when they reach storage, and what queries and clones read until then.

Page: "Stream table updates with change data capture".
"""

from __future__ import annotations

import threading
from datetime import datetime
from random import Random
from typing import Any

import pytest
from google.cloud.bigquery_storage_v1.types import AppendRowsResponse

from tests.bigquery_standin.warehouse import Warehouse
from tests.thoroughness import seeds

EMPLOYEES = [(100, "Charlie", 2000), (101, "Tal", 3000), (102, "Lee", 5000)]
WHOLE_BYTES = sum(8 + 8 + 2 + len(name) for _, name, _ in EMPLOYEES)
DELETE_BYTES = 8 + 2 + len("DELETE")
KINDS = {"id": "int64", "name": "string", "salary": "int64", "_CHANGE_TYPE": "string"}
SEQUENCED = KINDS | {"_CHANGE_SEQUENCE_NUMBER": "string"}
BROKEN = {"match": {"job_type": "query", "job_id": "cdc_background.*"}, "effect": "error", "reason": "backendError"}
Change = dict[str, Any]


@pytest.fixture
def merging(warehouse: Warehouse) -> Warehouse:
    """A table whose queries merge its changes."""
    warehouse.job("CREATE TABLE d.t (id INT64 NOT NULL, name STRING, salary INT64, PRIMARY KEY (id) NOT ENFORCED)")
    warehouse.job(f"INSERT d.t VALUES {', '.join(map(str, EMPLOYEES))}")
    return warehouse


@pytest.fixture
def stale(merging: Warehouse) -> Warehouse:
    """The same table, which may be ten minutes stale."""
    merging.job("ALTER TABLE d.t SET OPTIONS (max_staleness = INTERVAL 10 MINUTE)")
    return merging


def upsert(key: int, name: str, salary: int, sequence: str | None = None) -> Change:
    return {"id": key, "name": name, "salary": salary, "_CHANGE_TYPE": "UPSERT"} | numbered(sequence)


def delete(key: int, sequence: str | None = None) -> Change:
    return {"id": key, "_CHANGE_TYPE": "DELETE"} | numbered(sequence)


def numbered(sequence: str | None) -> Change:
    return {} if sequence is None else {"_CHANGE_SEQUENCE_NUMBER": sequence}


def sent(warehouse: Warehouse, *changes: Change, table: str = "d.t") -> AppendRowsResponse:
    kinds = SEQUENCED if any("_CHANGE_SEQUENCE_NUMBER" in change for change in changes) else KINDS
    return warehouse.append(table, kinds, *changes)


def append(warehouse: Warehouse, *changes: Change, table: str = "d.t") -> None:
    response = sent(warehouse, *changes, table=table)
    assert not response.error.message, response


def queried(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    return warehouse.rows("SELECT * FROM d.t ORDER BY id")


def watermark(warehouse: Warehouse) -> datetime | None:
    view = "d.INFORMATION_SCHEMA.TABLES WHERE table_name = 't'"
    found: datetime | None = warehouse.rows(f"SELECT upsert_stream_apply_watermark FROM {view}")[0][0]
    return found


def apply_jobs(warehouse: Warehouse) -> list[Any]:
    return [job for job in warehouse.client.list_jobs(all_users=True) if "cdc_background" in job.job_id]


def test_a_query_merges_changes_and_bills_the_whole_table(merging: Warehouse) -> None:
    assert merging.job("SELECT id FROM d.t").total_bytes_processed == 24
    append(merging, delete(100))
    assert merging.job("SELECT id FROM d.t").total_bytes_processed == WHOLE_BYTES + DELETE_BYTES
    append(merging, upsert(101, "Tal", 8000), upsert(105, "Izumi", 6000))
    merging.restart()
    assert queried(merging) == [(101, "Tal", 8000), (102, "Lee", 5000), (105, "Izumi", 6000)]
    assert merging.stored("d.t") == EMPLOYEES


def test_an_upsert_replaces_all_rows_with_its_key_in_every_partition(warehouse: Warehouse) -> None:
    warehouse.job(
        "CREATE TABLE d.p (day DATE, id INT64, PRIMARY KEY (id) NOT ENFORCED) PARTITION BY day; "
        "INSERT d.p VALUES (CURRENT_DATE(), 1), (DATE_SUB(CURRENT_DATE(), INTERVAL 1 DAY), 1)"
    )
    kinds = {"day": "int32", "id": "int64", "_CHANGE_TYPE": "string"}
    warehouse.append("d.p", kinds, {"id": 1, "_CHANGE_TYPE": "UPSERT"})
    assert warehouse.rows("SELECT * FROM d.p") == [(None, 1)]
    warehouse.job("ALTER TABLE d.p SET OPTIONS (require_partition_filter = TRUE)")
    assert "require_partition_filter" in warehouse.refusal("SELECT id FROM d.p WHERE day IS NULL")[1]


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("77", "7B"), ("FFF/B", "FFF/ABC"), ("BA/FFFFFFFF", "ABC"), ("ABC", "FFF/ABC"), ("a", "B"), ("0", "F" * 16)],
)
def test_sequence_numbers_are_compared_section_by_section(merging: Warehouse, smaller: str, larger: str) -> None:
    append(merging, upsert(1, "larger", 1, larger), upsert(1, "smaller", 2, smaller))
    assert merging.rows("SELECT name FROM d.t WHERE id = 1") == [("larger",)]


def test_numbered_and_unnumbered_changes_are_not_mixed(merging: Warehouse) -> None:
    assert sent(merging, delete(1, "1"), delete(2)).error.code
    append(merging, delete(1, "1"))
    assert sent(merging, delete(2)).error.code


def test_row_policies_need_the_true_filter(merging: Warehouse) -> None:
    """ "Using row-level security with other BigQuery features", streaming updates."""
    merging.job("CREATE ROW ACCESS POLICY p ON d.t GRANT TO ('user:other@example.com') FILTER USING (TRUE)")
    assert sent(merging, delete(1)).error.code == 7  # PERMISSION_DENIED
    merging.job("CREATE ROW ACCESS POLICY q ON d.t GRANT TO ('user:stand-in@local.invalid') FILTER USING (TRUE)")
    append(merging, delete(1))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE d.t SET salary = 1 WHERE TRUE",
        "DELETE FROM d.t WHERE TRUE",
        "MERGE d.t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE d.t",
    ],
)
def test_what_changes_rows_is_refused_while_changes_are_pending(stale: Warehouse, sql: str) -> None:
    append(stale, delete(100))
    assert stale.refusal(sql)[0] in ("invalidQuery", "invalid")
    stale.job("INSERT d.t VALUES (7, 'Ann', 1)")
    stale.advance(minutes=5)
    stale.job(sql)


def test_within_max_staleness_queries_read_the_rows_as_last_applied(stale: Warehouse) -> None:
    append(stale, delete(100))
    assert (queried(stale), watermark(stale)) == (EMPLOYEES, None)
    stale.job("CREATE TABLE d.c CLONE d.t")
    assert len(stale.rows("SELECT id FROM d.c")) == 3
    acknowledged = stale.now()
    stale.advance(minutes=5)
    assert queried(stale) == stale.stored("d.t") == EMPLOYEES[1:]
    applied = watermark(stale)
    assert applied is not None
    assert applied > acknowledged
    (job,) = apply_jobs(stale)
    assert (job.total_bytes_processed, job.total_bytes_billed) == (WHOLE_BYTES + DELETE_BYTES, 10 << 20)
    assert (job.user_email, job.destination.table_id) == ("bigquery-adminbot@system.gserviceaccount.com", "t")
    append(stale, delete(7))
    for jobs in (2, 2):  # once more after the last change, and then no more
        stale.advance(minutes=6)
        assert len(apply_jobs(stale)) == jobs


def test_beyond_max_staleness_queries_merge_clones_are_refused_and_the_watermark_stays(stale: Warehouse) -> None:
    append(stale, upsert(101, "Tal", 1))
    stale.advance(minutes=5)
    before, salary = watermark(stale), "SELECT salary FROM d.{} WHERE id = 101"
    with stale.fault(**BROKEN, message="no slots", times=1000):
        append(stale, upsert(101, "Tal", 2))
        stale.advance(minutes=9)
        assert stale.rows(salary.format("t")) == [(1,)]
        stale.job("CREATE TABLE d.fresh CLONE d.t")
        stale.advance(minutes=2)
        assert (stale.rows(salary.format("t")), watermark(stale)) == ([(2,)], before)
        assert "cannot be cloned" in stale.refusal("CREATE TABLE d.late CLONE d.t")[1]
    stale.advance(minutes=1)
    stale.job("CREATE TABLE d.late CLONE d.t")
    assert (stale.rows(salary.format("late")), stale.rows(salary.format("fresh"))) == ([(2,)], [(1,)])


def test_without_max_staleness_changes_are_not_applied_and_clones_refused(merging: Warehouse) -> None:
    append(merging, delete(100))
    merging.advance(hours=24)
    assert watermark(merging) is None
    assert "cannot be cloned" in merging.refusal("CREATE TABLE d.c CLONE d.t")[1]
    merging.job("ALTER TABLE d.t SET OPTIONS (max_staleness = INTERVAL 1 MINUTE)")
    merging.advance(seconds=1)
    merging.job("CREATE TABLE d.c CLONE d.t")
    assert merging.rows("SELECT id FROM d.c ORDER BY id") == [(101,), (102,)]


def test_a_failed_apply_job_is_repeated_later(stale: Warehouse) -> None:
    append(stale, delete(100))
    with stale.fault(**BROKEN, message="no slots", times=1):
        stale.advance(minutes=5)
        stale.advance(seconds=10)
        assert len(apply_jobs(stale)) == 1
        stale.advance(seconds=30)
    assert sorted(job.error_result is None for job in apply_jobs(stale)) == [False, True]


def test_a_late_change_loses_to_a_newer_one_that_was_applied_and_to_a_delete_for_two_days(stale: Warehouse) -> None:
    append(stale, upsert(101, "new", 2, "2"), delete(102, "2"))
    stale.advance(minutes=5)
    stale.advance(hours=47)
    append(stale, upsert(101, "old", 1, "1"), upsert(102, "too early", 1, "1"))
    stale.advance(minutes=5)
    assert stale.stored("d.t") == [EMPLOYEES[0], (101, "new", 2)]
    stale.advance(hours=1)
    append(stale, delete(1, "3"))
    stale.advance(minutes=5)
    append(stale, upsert(102, "old", 1, "1"))
    stale.advance(minutes=5)
    assert stale.stored("d.t")[2] == (102, "old", 1)
    past = f"d.t FOR SYSTEM_TIME AS OF TIMESTAMP '{stale.now()}'"
    stale.job("TRUNCATE TABLE d.t")  # forgets what was applied
    append(stale, upsert(101, "old", 1, "1"))
    stale.advance(minutes=5)
    assert stale.stored("d.t") == [(101, "old", 1)]
    assert stale.rows(f"SELECT COUNT(*) FROM {past}") == [(3,)]


@pytest.mark.parametrize("seed", seeds(4))
def test_random_changes_leave_the_rows_that_their_order_says(stale: Warehouse, seed: int) -> None:
    """Queries that merge at any moment, apply jobs between the changes and restarts give the same rows."""
    random = Random(seed)
    stale.job("CREATE TABLE d.merged CLONE d.t")
    last: dict[int, tuple[int, int, Change]] = {}
    for number in range(30):
        sequence, key = random.choice([random.randrange(40), number]), random.randrange(99, 106)
        text = f"{sequence:x}/{random.choice(['', '0'])}{number % 3}"
        change = delete(key, text) if random.random() < 0.3 else upsert(key, f"n{number}", number, text)
        order = (sequence, number % 3)
        if key not in last or order >= last[key][:2]:
            last[key] = (*order, change)
        for table in random.choice([["d.t", "d.merged"], ["d.t", "d.merged"] * 2]):
            append(stale, change, table=table)
        if random.random() < 0.2:
            stale.advance(minutes=random.choice([1, 5, 9]))
        if random.random() < 0.1:
            stale.restart()
    expected = {row[0]: row for row in EMPLOYEES if row[0] not in last}
    for key, (_, _, change) in last.items():
        if change["_CHANGE_TYPE"] == "UPSERT":
            expected[key] = (key, change["name"], change["salary"])
    rows = [expected[key] for key in sorted(expected)]
    assert stale.rows("SELECT * FROM d.merged ORDER BY id") == rows
    stale.advance(minutes=5)
    assert stale.stored("d.t") == rows


def test_changes_and_rows_that_arrive_during_apply_jobs_are_kept(stale: Warehouse) -> None:
    done = threading.Event()

    def write() -> None:
        for number in range(1, 21):
            append(stale, upsert(101, "Tal", number))
            stale.job(f"INSERT d.t VALUES ({1000 + number}, 'new', 1)")
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        stale.advance(minutes=5)
    writer.join()
    stale.advance(minutes=5)
    assert [row for row in stale.stored("d.t") if row[0] < 1000] == [EMPLOYEES[0], (101, "Tal", 20), EMPLOYEES[2]]
    assert len(stale.stored("d.t")) == 3 + 20
