"""Apply jobs: when streamed changes reach storage, what queries and clones read until then, and what is remembered.

Page: "Stream table updates with change data capture".
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.faults import parse_fault
from devstack.bigquery.jobs.change_merge import merge_changes
from devstack.bigquery.jobs.destination_table import write_change
from devstack.bigquery.jobs.job_record import JobRecord
from devstack.bigquery.storage.change_log import RowChange
from devstack.bigquery.storage.model import Partition, TableId
from devstack.bigquery.storage.table_change import Change
from tests.thoroughness import times
from tests.unit.devstack.bigquery.jobs.employees_table import (
    EMPLOYEES,
    TABLE,
    advance,
    append,
    delete,
    failure,
    make_employees,
    queried,
    stored,
    upsert,
)
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse


def watermark(warehouse: Warehouse) -> datetime | None:
    view = "d.INFORMATION_SCHEMA.TABLES WHERE table_name = 't'"
    found: datetime | None = queried(warehouse, f"SELECT upsert_stream_apply_watermark FROM {view}")[0][0]
    return found


def apply_jobs(warehouse: Warehouse) -> list[JobRecord]:
    return [job for job in warehouse.stand_in.jobs.store.all() if "cdc_background" in job.job_id]


@pytest.fixture
def stale(tmp_path: Path) -> Warehouse:
    """A warehouse whose table may be ten minutes stale."""
    warehouse = make_employees(tmp_path)
    warehouse.statistics("ALTER TABLE d.t SET OPTIONS (max_staleness = INTERVAL 10 MINUTE)")
    return warehouse


def test_within_max_staleness_queries_read_the_rows_as_last_applied(stale: Warehouse) -> None:
    append(stale, delete(100), upsert(101, "Tal", 8000))
    assert queried(stale) == EMPLOYEES
    assert stale.statistics("SELECT id FROM d.t")["totalBytesProcessed"] == "24"
    assert watermark(stale) is None
    acknowledged = stale.stand_in.clock.now()
    advance(stale, minutes=5)
    assert queried(stale) == stored(stale) == [(101, "Tal", 8000), (102, "Lee", 5000)]
    applied = watermark(stale)
    assert applied is not None
    assert applied > acknowledged
    assert applied.microsecond % 1000 == 0


def test_an_apply_job_bills_the_whole_table_and_the_changes(stale: Warehouse) -> None:
    append(stale, delete(100))
    advance(stale, minutes=5)
    (job,) = apply_jobs(stale)
    whole = sum(8 + 8 + 2 + len(name) for _, name, _ in EMPLOYEES) + 8 + 2 + len("DELETE")
    assert job.statistics["query"]["totalBytesProcessed"] == str(whole)
    assert job.statistics["query"]["totalBytesBilled"] == str(10 << 20)
    assert job.user == "bigquery-adminbot@system.gserviceaccount.com"
    assert job.configuration["query"]["destinationTable"]["tableId"] == "t"


def test_the_watermark_passes_the_last_change_once_more_and_then_rests(stale: Warehouse) -> None:
    append(stale, delete(100))
    advance(stale, minutes=4)
    append(stale, delete(7))
    jobs = []
    for minutes in (1, 5, 5, 5):
        advance(stale, minutes=minutes)
        jobs.append(len(apply_jobs(stale)))
    assert jobs == [1, 2, 2, 2]
    assert apply_jobs(stale)[0].statistics["query"]["totalBytesProcessed"] == "0"
    modified = stale.stand_in.catalog.get(TABLE).modified_us
    append(stale, delete(101))
    assert stale.stand_in.catalog.get(TABLE).modified_us == modified
    assert queried(stale) == [(101, "Tal", 3000), (102, "Lee", 5000)]


def test_beyond_max_staleness_queries_merge_and_the_watermark_stays(stale: Warehouse) -> None:
    append(stale, upsert(101, "Tal", 1))
    advance(stale, minutes=5)
    before = watermark(stale)
    broken = {"match": {"job_type": "query", "job_id": "cdc_background.*"}, "effect": "error", "times": 1000}
    stale.stand_in.faults.add(parse_fault({**broken, "reason": "backendError", "message": "no slots"}))
    append(stale, upsert(101, "Tal", 2))
    advance(stale, minutes=9)
    assert queried(stale)[1] == (101, "Tal", 1)
    stale.statistics("CREATE TABLE d.fresh CLONE d.t")
    advance(stale, minutes=2)
    assert queried(stale)[1] == (101, "Tal", 2)
    assert int(stale.statistics("SELECT COUNT(*) FROM d.t")["totalBytesProcessed"]) > 0
    assert watermark(stale) == before
    assert "cannot be cloned" in failure(stale, "CREATE TABLE d.late CLONE d.t")
    stale.stand_in.faults.clear()
    advance(stale, minutes=1)
    stale.statistics("CREATE TABLE d.late CLONE d.t")
    assert queried(stale, "SELECT salary FROM d.late WHERE id = 101") == [(2,)]
    assert queried(stale, "SELECT salary FROM d.fresh WHERE id = 101") == [(1,)]


def test_without_max_staleness_changes_are_not_applied_and_clones_refused(tmp_path: Path) -> None:
    warehouse = make_employees(tmp_path)
    append(warehouse, delete(100))
    advance(warehouse, hours=24)
    assert watermark(warehouse) is None
    assert "cannot be cloned" in failure(warehouse, "CREATE TABLE d.c CLONE d.t")
    warehouse.statistics("ALTER TABLE d.t SET OPTIONS (max_staleness = INTERVAL 1 MINUTE)")
    advance(warehouse, seconds=1)
    warehouse.statistics("CREATE TABLE d.c CLONE d.t")
    assert queried(warehouse, "SELECT id FROM d.c ORDER BY id") == [(101,), (102,)]


def test_a_clone_has_neither_pending_changes_nor_their_log(stale: Warehouse) -> None:
    append(stale, delete(100))
    stale.statistics("CREATE TABLE d.c CLONE d.t")
    clone = stale.stand_in.catalog.get(TableId("local-dev", "d", "c"))
    assert (clone.change_log, clone.rows, clone.settings.primary_key) == (None, 3, ("id",))


def test_a_change_that_comes_after_a_newer_one_was_applied_changes_nothing(stale: Warehouse) -> None:
    append(stale, upsert(101, "new", 2, "2"), delete(102, "2"))
    advance(stale, minutes=5)
    append(stale, upsert(101, "old", 1, "1"), upsert(102, "old", 1, "1"))
    advance(stale, minutes=5)
    assert stored(stale) == [(100, "Charlie", 2000), (101, "new", 2)]


def test_a_delete_is_remembered_for_two_days(stale: Warehouse) -> None:
    append(stale, delete(102, "2"))
    advance(stale, minutes=5)
    advance(stale, hours=47)
    append(stale, upsert(102, "too early", 1, "1"))
    advance(stale, minutes=5)
    assert 102 not in [row[0] for row in stored(stale)]
    advance(stale, hours=1)
    append(stale, delete(1, "3"))
    advance(stale, minutes=5)
    append(stale, upsert(102, "old", 1, "1"))
    advance(stale, minutes=5)
    assert (102, "old", 1) in stored(stale)


def test_a_query_of_the_past_reads_the_rows_of_that_time(stale: Warehouse) -> None:
    append(stale, upsert(100, "Charlie", 1))
    advance(stale, minutes=5)
    moment = stale.stand_in.clock.now()
    append(stale, upsert(100, "Charlie", 2))
    advance(stale, minutes=5)
    past = f"SELECT salary FROM d.t FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}' WHERE id = 100"
    assert queried(stale, past) == [(1,)]


def test_a_replaced_table_forgets_the_changes_that_were_applied(stale: Warehouse) -> None:
    append(stale, upsert(101, "new", 2, "2"))
    advance(stale, minutes=5)
    stale.statistics("TRUNCATE TABLE d.t")
    append(stale, upsert(101, "old", 1, "1"))
    advance(stale, minutes=5)
    assert stored(stale) == [(101, "old", 1)]


@pytest.mark.parametrize("write", ["WRITE_TRUNCATE", "WRITE_TRUNCATE_DATA"])
def test_all_rows_are_not_replaced_while_changes_are_pending(stale: Warehouse, write: str) -> None:
    def replace_rows() -> None:
        settings = stale.stand_in.catalog.get(TABLE).settings
        stale.stand_in.catalog.commit(
            TABLE, lambda now, commit_us: write_change("load", settings, now, {}, write, None, commit_us)
        )

    append(stale, upsert(101, "new", 2, "2"))
    with pytest.raises(Invalid, match="its rows cannot all be replaced"):
        replace_rows()
    advance(stale, minutes=5)
    replace_rows()
    assert stored(stale) == []


def test_changes_that_arrive_during_an_apply_job_wait_for_the_next_one(
    stale: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merge_then_append(*arguments: Any) -> Any:
        merged = merge_changes(*arguments)
        append(stale, upsert(101, "late", 2))
        return merged

    append(stale, upsert(101, "early", 1))
    monkeypatch.setattr("devstack.bigquery.jobs.change_apply.merge_changes", merge_then_append)
    advance(stale, minutes=5)
    monkeypatch.undo()
    assert stored(stale)[1] == (101, "early", 1)
    late = stale.stand_in.catalog.get(TABLE).change_log
    assert late is not None
    assert late.watermark_us is not None
    assert late.watermark_us < late.pending[0].acknowledged_us
    advance(stale, minutes=5)
    assert stored(stale)[1] == (101, "late", 2)


def test_an_apply_job_runs_again_when_rows_were_changed_meanwhile(
    stale: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = []

    def merge_then_load(*arguments: Any) -> Any:
        merged = merge_changes(*arguments)
        if not interrupted:
            interrupted.append(True)
            stale.statistics("INSERT d.t VALUES (7, 'Ann', 1)")
            rewrite(stale)
        return merged

    append(stale, upsert(7, "Ann", 2))
    monkeypatch.setattr("devstack.bigquery.jobs.change_apply.merge_changes", merge_then_load)
    advance(stale, minutes=5)
    assert [job.error for job in apply_jobs(stale)] == [None]
    assert stored(stale)[0] == (7, "Ann", 2)


def rewrite(warehouse: Warehouse) -> None:
    """Replaces the segments of the table by others with the same rows, as a load or re-clustering does."""
    catalog = warehouse.stand_in.catalog
    with catalog.pinned(TABLE) as version, catalog.segments.batch() as batch:
        rows = [pq.read_table(catalog.segments.path(segment)) for segment in version.segments()]
        partition = Partition((batch.write(pa.concat_tables(rows)),), catalog.clock.now_us())
        catalog.commit(TABLE, lambda now, commit_us: Change("load", version.settings, {"": partition}))


def test_a_failed_apply_job_is_not_repeated_at_once(stale: Warehouse) -> None:
    fault = {"match": {"job_type": "query", "job_id": "cdc_background.*"}, "effect": "error", "times": 1}
    stale.stand_in.faults.add(parse_fault({**fault, "reason": "backendError", "message": "no slots"}))
    append(stale, delete(100))
    advance(stale, minutes=5)
    advance(stale, seconds=10)
    assert len(apply_jobs(stale)) == 1
    advance(stale, seconds=30)
    assert [job.error is None for job in apply_jobs(stale)] == [True, False]


@pytest.mark.parametrize("seed", range(times(2, 8)))
def test_random_changes_leave_the_rows_that_their_order_says(stale: Warehouse, tmp_path: Path, seed: int) -> None:
    """Queries that merge at any moment, apply jobs between the changes and restarts give the same rows."""
    random = Random(seed)
    stale.statistics("CREATE TABLE d.merged CLONE d.t")
    merging = TableId("local-dev", "d", "merged")
    last: dict[int, tuple[int, int, RowChange]] = {}
    for number in range(30):
        sequence = random.choice([random.randrange(40), number])
        key = random.randrange(99, 106)
        text = f"{sequence:x}/{random.choice(['', '0'])}{number % 3}"
        change = delete(key, text) if random.random() < 0.3 else upsert(key, f"n{number}", number, text)
        order = (sequence, number % 3)
        if key not in last or order >= last[key][:2]:
            last[key] = (*order, change)
        for _ in range(random.choice([1, 1, 2])):
            append(stale, change)
            append(stale, change, table=merging)
        if random.random() < 0.2:
            advance(stale, minutes=random.choice([1, 5, 9]))
        if random.random() < 0.1:
            stale = Warehouse(tmp_path)
    expected = {row[0]: row for row in EMPLOYEES if row[0] not in last}
    for _, _, change in last.values():
        if change.change_type == "UPSERT":
            expected[int(str(change.row["id"]))] = tuple(change.row.values())  # type: ignore[assignment]
    rows = [expected[key] for key in sorted(expected)]
    assert queried(stale, "SELECT * FROM d.merged ORDER BY id") == rows
    advance(stale, minutes=5)
    assert stored(stale) == rows
