"""Streamed upserts and deletes: the change log, its order, and queries that merge it.

Page: "Stream table updates with change data capture".
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from devstack.bigquery.bigquery_errors import AccessDenied, Invalid, NotFound
from devstack.bigquery.callers import DEFAULT_USER
from devstack.bigquery.clock import MICROSECONDS
from devstack.bigquery.faults import parse_fault
from devstack.bigquery.jobs.change_merge import merge_changes
from devstack.bigquery.jobs.destination_table import write_change
from devstack.bigquery.jobs.job_record import JobRecord
from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage.change_log import (
    InvalidRows,
    RowChange,
    append_changes,
    is_change_stream,
    sequence_order,
)
from devstack.bigquery.storage.model import Partition, TableId, TableVersion
from devstack.bigquery.storage.table_change import Change
from tests.thoroughness import times
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse

TABLE = TableId("local-dev", "d", "t")
EMPLOYEES = [(100, "Charlie", 2000), (101, "Tal", 3000), (102, "Lee", 5000)]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("CREATE SCHEMA d")
    warehouse.statistics(
        "CREATE TABLE d.t (id INT64 NOT NULL, name STRING, salary INT64, PRIMARY KEY (id) NOT ENFORCED)"
    )
    values = ", ".join(str(row) for row in EMPLOYEES)
    warehouse.statistics(f"INSERT d.t VALUES {values}")
    return warehouse


def upsert(key: int, name: str, salary: int, sequence: str | None = None) -> RowChange:
    return RowChange("UPSERT", sequence, {"id": key, "name": name, "salary": salary})


def delete(key: int, sequence: str | None = None) -> RowChange:
    return RowChange("DELETE", sequence, {"id": key})


def append(warehouse: Warehouse, *changes: RowChange, table: TableId = TABLE) -> TableVersion:
    return append_changes(warehouse.stand_in.catalog, warehouse.stand_in.caller(DEFAULT_USER), table, changes)


def queried(warehouse: Warehouse, sql: str = "SELECT * FROM d.t ORDER BY id") -> list[tuple[Any, ...]]:
    record = warehouse.run(sql)
    assert record.error is None, record.error
    found = record.configuration["query"]["destinationTable"]
    return warehouse.rows(f"{found['datasetId']}.{found['tableId']}")


def stored(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    return sorted(warehouse.rows("d.t"))


def test_a_query_merges_changes_and_storage_keeps_its_rows(warehouse: Warehouse) -> None:
    append(warehouse, delete(100), upsert(101, "Tal", 8000), upsert(105, "Izumi", 6000))
    assert queried(warehouse) == [(101, "Tal", 8000), (102, "Lee", 5000), (105, "Izumi", 6000)]
    assert warehouse.rows("d.t") == EMPLOYEES


def test_changes_survive_a_restart(warehouse: Warehouse, tmp_path: Path) -> None:
    append(warehouse, upsert(101, "Tal", 1))
    append(warehouse, upsert(101, "Tal", 2))
    reopened = Warehouse(tmp_path)
    reopened.stand_in.garbage_collector.sweep(segments=True)
    assert queried(reopened)[1] == (101, "Tal", 2)


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("77", "7B"), ("FFF/B", "FFF/ABC"), ("BA/FFFFFFFF", "ABC"), ("ABC", "FFF/ABC"), ("a", "B"), ("0", "F" * 16)],
)
def test_sequence_numbers_are_compared_section_by_section(warehouse: Warehouse, smaller: str, larger: str) -> None:
    assert sequence_order(smaller) < sequence_order(larger)
    append(warehouse, upsert(1, "larger", 1, larger), upsert(1, "smaller", 2, smaller))
    assert queried(warehouse, "SELECT name FROM d.t WHERE id = 1") == [("larger",)]


def test_of_equal_sequence_numbers_the_later_change_counts(warehouse: Warehouse) -> None:
    append(warehouse, upsert(1, "first", 1, "A"), upsert(1, "second", 2, "a"))
    append(warehouse, upsert(1, "third", 3, "000A"))
    assert queried(warehouse, "SELECT name FROM d.t WHERE id = 1") == [("third",)]


def test_without_sequence_numbers_the_later_change_counts(warehouse: Warehouse) -> None:
    append(warehouse, upsert(1, "first", 1), delete(1), upsert(1, "second", 2))
    append(warehouse, upsert(2, "first", 1), delete(2))
    assert queried(warehouse, "SELECT id, name FROM d.t WHERE id < 100") == [(1, "second")]


def test_an_upsert_replaces_all_rows_with_its_key_in_every_partition(warehouse: Warehouse) -> None:
    warehouse.statistics(
        "CREATE TABLE d.p (day DATE, id INT64, number INT64, PRIMARY KEY (id) NOT ENFORCED) PARTITION BY day"
    )
    warehouse.statistics("INSERT d.p VALUES (CURRENT_DATE(), 1, 1), (DATE_SUB(CURRENT_DATE(), INTERVAL 1 DAY), 1, 2)")
    change = RowChange("UPSERT", None, {"day": None, "id": 1, "number": 3})
    append(warehouse, change, table=TableId("local-dev", "d", "p"))
    assert queried(warehouse, "SELECT * FROM d.p") == [(None, 1, 3)]


def test_a_query_that_merges_bills_the_whole_table(warehouse: Warehouse) -> None:
    before = warehouse.statistics("SELECT id FROM d.t")["totalBytesProcessed"]
    append(warehouse, delete(100))
    merged = warehouse.statistics("SELECT id FROM d.t")
    dry = warehouse.statistics("SELECT COUNT(*) FROM d.t")
    whole = sum(8 + 8 + 2 + len(name) for _, name, _ in EMPLOYEES)
    change = 8 + 2 + len("DELETE")
    assert (before, merged["totalBytesProcessed"]) == ("24", str(whole + change))
    assert dry["totalBytesProcessed"] == str(whole + change)


def test_a_query_that_merges_is_not_cached(warehouse: Warehouse) -> None:
    append(warehouse, delete(100))
    assert [warehouse.statistics("SELECT id FROM d.t")["cacheHit"] for _ in range(2)] == [False, False]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (RowChange("INSERT", None, {"id": 1}), "not a valid CHANGE_TYPE"),
        (RowChange("upsert", None, {"id": 1}), "not a valid CHANGE_TYPE"),
        (RowChange("UPSERT", None, {"name": "x"}), "Field id of the primary key has no value"),
        (RowChange("DELETE", None, {"id": None}), "Field id of the primary key has no value"),
        (RowChange("DELETE", "", {"id": 1}), "hexadecimal"),
        (RowChange("DELETE", "0/1/2/3/4", {"id": 1}), "hexadecimal"),
        (RowChange("DELETE", "G", {"id": 1}), "hexadecimal"),
        (RowChange("DELETE", "0" * 17, {"id": 1}), "hexadecimal"),
    ],
)
def test_a_wrong_change_is_refused_with_all_of_its_request(
    warehouse: Warehouse, change: RowChange, problem: str
) -> None:
    with pytest.raises(InvalidRows, match=problem) as refused:
        append(warehouse, delete(101, None if change.sequence is None else "1"), change)
    assert set(refused.value.rows) == {1}
    assert warehouse.stand_in.catalog.get(TABLE).change_log is None


def test_an_upsert_without_a_required_column_is_refused(warehouse: Warehouse) -> None:
    warehouse.statistics("CREATE TABLE d.r (id INT64, a INT64 NOT NULL, PRIMARY KEY (id) NOT ENFORCED)")
    table = TableId("local-dev", "d", "r")
    with pytest.raises(InvalidRows, match="Required field a has no value"):
        append(warehouse, RowChange("UPSERT", None, {"id": 1}), table=table)
    append(warehouse, RowChange("UPSERT", None, {"ID": 1, "A": 2}), RowChange("DELETE", None, {"id": 3}), table=table)
    assert queried(warehouse, "SELECT * FROM d.r") == [(1, 2)]


def test_changes_with_and_without_sequence_numbers_are_not_mixed(warehouse: Warehouse) -> None:
    with pytest.raises(Invalid, match="unpredictable"):
        append(warehouse, delete(1, "1"), delete(2))
    append(warehouse, delete(1, "1"))
    with pytest.raises(Invalid, match="unpredictable"):
        append(warehouse, delete(2))


def test_a_table_without_primary_key_takes_no_changes(warehouse: Warehouse) -> None:
    warehouse.statistics("ALTER TABLE d.t DROP PRIMARY KEY")
    with pytest.raises(Invalid, match="needs a primary key"):
        append(warehouse, delete(1))
    with pytest.raises(NotFound):
        append(warehouse, delete(1), table=TableId("local-dev", "d", "absent"))


def test_a_table_with_changes_has_at_most_two_thousand_columns(warehouse: Warehouse) -> None:
    columns = ", ".join(f"c{number} INT64" for number in range(2001))
    warehouse.statistics(f"CREATE TABLE d.wide ({columns}, PRIMARY KEY (c0) NOT ENFORCED)")
    with pytest.raises(Invalid, match=r"at most \[2000\] columns"):
        append(warehouse, RowChange("DELETE", None, {"c0": 1}), table=TableId("local-dev", "d", "wide"))


def test_a_connection_does_not_mix_changes_with_plain_rows() -> None:
    assert is_change_stream(["UPSERT", "DELETE"], None)
    assert is_change_stream(["UPSERT"], True)
    assert not is_change_stream([None, "INSERT"], None)
    for kinds, before in ((["UPSERT", None], None), (["UPSERT"], False), ([None], True)):
        with pytest.raises(Invalid, match=r"^The given value is not a valid CHANGE_TYPE$"):
            is_change_stream(kinds, before)


def test_row_policies_need_the_true_filter(warehouse: Warehouse) -> None:
    """ "Using row-level security with other BigQuery features", streaming updates."""
    warehouse.statistics("CREATE ROW ACCESS POLICY p ON d.t GRANT TO ('user:other@example.com') FILTER USING (TRUE)")
    with pytest.raises(AccessDenied, match="Change data capture needs a row access policy"):
        append(warehouse, delete(1))
    warehouse.statistics(f"CREATE ROW ACCESS POLICY q ON d.t GRANT TO ('user:{DEFAULT_USER}') FILTER USING (TRUE)")
    append(warehouse, delete(1))


def test_policy_tags_of_the_key_are_checked_and_those_of_other_columns_are_not(warehouse: Warehouse) -> None:
    """ "Impact on writes with column-level access control", Storage Write API."""
    tag = "projects/p/locations/us/taxonomies/1/policyTags/2"

    def put_tag(name: str) -> None:
        def change(current: TableVersion | None, commit_us: int) -> Change:
            assert current is not None
            schema = tuple(
                replace(column, policy_tags=(tag,) if column.name == name else ()) for column in current.settings.schema
            )
            return Change("options", replace(current.settings, schema=schema), current.partitions)

        warehouse.stand_in.catalog.commit(TABLE, change)

    put_tag("salary")
    append(warehouse, delete(1))
    put_tag("id")
    with pytest.raises(AccessDenied, match="fine-grained read access to column id"):
        append(warehouse, delete(1))


def test_the_key_is_not_changed_while_changes_are_pending(warehouse: Warehouse) -> None:
    append(warehouse, delete(100))
    assert "active with change data capture" in failure(warehouse, "ALTER TABLE d.t DROP PRIMARY KEY")
    warehouse.statistics("CREATE OR REPLACE TABLE d.t AS SELECT 1 AS id")
    assert queried(warehouse) == [(1,)]


def failure(warehouse: Warehouse, sql: str) -> str:
    error = warehouse.run(sql).error
    assert error is not None
    return str(error["message"])


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE d.t SET salary = 1 WHERE TRUE",
        "DELETE FROM d.t WHERE TRUE",
        "MERGE d.t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE d.t",
    ],
)
def test_dml_that_changes_rows_is_refused_while_changes_are_pending(warehouse: Warehouse, sql: str) -> None:
    warehouse.statistics("ALTER TABLE d.t SET OPTIONS (max_staleness = INTERVAL 10 MINUTE)")
    append(warehouse, delete(100))
    assert "not supported over table local-dev:d.t" in failure(warehouse, sql)
    warehouse.statistics("INSERT d.t VALUES (7, 'Ann', 1)")
    advance(warehouse, minutes=5)
    warehouse.statistics(sql)


def advance(warehouse: Warehouse, **time: float) -> None:
    warehouse.stand_in.clock.advance(int(timedelta(**time).total_seconds() * MICROSECONDS))
    warehouse.stand_in.garbage_collector.sweep()


def watermark(warehouse: Warehouse) -> datetime | None:
    view = "d.INFORMATION_SCHEMA.TABLES WHERE table_name = 't'"
    found: datetime | None = queried(warehouse, f"SELECT upsert_stream_apply_watermark FROM {view}")[0][0]
    return found


def apply_jobs(warehouse: Warehouse) -> list[JobRecord]:
    return [job for job in warehouse.stand_in.jobs.store.all() if "cdc_background" in job.job_id]


@pytest.fixture
def stale(warehouse: Warehouse) -> Warehouse:
    """A warehouse whose table may be ten minutes stale."""
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


def test_without_max_staleness_changes_are_not_applied_and_clones_refused(warehouse: Warehouse) -> None:
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
    advance(stale, days=2)
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


def test_a_query_that_merges_needs_a_table_without_required_partition_filter(warehouse: Warehouse) -> None:
    warehouse.statistics(
        "CREATE TABLE d.p (day DATE, id INT64, PRIMARY KEY (id) NOT ENFORCED) PARTITION BY day "
        "OPTIONS (require_partition_filter = TRUE)"
    )
    table = TableId("local-dev", "d", "p")
    append(warehouse, RowChange("UPSERT", None, {"id": 1}), table=table)
    assert "require_partition_filter" in failure(warehouse, "SELECT id FROM d.p WHERE day IS NULL")


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


def test_a_change_of_an_expired_day_is_not_shown(warehouse: Warehouse) -> None:
    warehouse.statistics(
        "CREATE TABLE d.p (day DATE, id INT64, PRIMARY KEY (id) NOT ENFORCED) PARTITION BY day "
        "OPTIONS (partition_expiration_days = 2)"
    )
    today = warehouse.stand_in.clock.now().date()
    days = (today, today - timedelta(days=5))
    changes = [RowChange("UPSERT", None, {"day": day, "id": number}) for number, day in enumerate(days)]
    append(warehouse, *changes, table=TableId("local-dev", "d", "p"))
    assert queried(warehouse, "SELECT id FROM d.p") == [(0,)]


def test_changes_from_before_a_column_was_added_have_null_in_it(warehouse: Warehouse) -> None:
    def add_column(current: TableVersion | None, commit_us: int) -> Change:
        assert current is not None
        schema = (*current.settings.schema, TableField("added", "STRING"))
        return Change("load", replace(current.settings, schema=schema), {})

    append(warehouse, upsert(1, "before", 1))
    warehouse.stand_in.catalog.commit(TABLE, add_column)
    append(warehouse, RowChange("UPSERT", None, {"id": 2, "added": "after"}))
    assert queried(warehouse, "SELECT id, added FROM d.t ORDER BY id") == [(1, None), (2, "after")]


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
        if change.kind == "UPSERT":
            expected[int(str(change.row["id"]))] = tuple(change.row.values())  # type: ignore[assignment]
    rows = [expected[key] for key in sorted(expected)]
    assert queried(stale, "SELECT * FROM d.merged ORDER BY id") == rows
    advance(stale, minutes=5)
    assert stored(stale) == rows
