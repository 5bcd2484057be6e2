"""`region-….INFORMATION_SCHEMA.JOBS`: what monitoring queries of the kind that people publish find there.

Source: "JOBS view", schema and examples.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devstack.bigquery.clock import HOUR_US
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse

HOUR = Path(__file__).parents[5] / "docs" / "hour.md"
JOBS = "`region-us`.INFORMATION_SCHEMA.JOBS"
RECENT = "creation_time BETWEEN TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 8 DAY) AND CURRENT_TIMESTAMP()"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    found = Warehouse(tmp_path_factory.mktemp("stand_in"))
    found.statistics("CREATE SCHEMA d; CREATE TABLE d.t (day DATE, v INT64) PARTITION BY day")
    found.statistics("INSERT d.t VALUES (DATE '2026-01-01', 1), (DATE '2026-01-02', 2)")
    found.statistics("UPDATE d.t SET v = 3 WHERE day = DATE '2026-01-01'")
    found.statistics("SELECT v FROM d.t")
    found.wait(found.start("SELECT day FROM d.t", labels={"dedup_clone_step": "load"}))
    assert found.run("SELECT nothing FROM d.t").error is not None
    return found


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            f"SELECT statement_type, COUNT(*) AS n FROM {JOBS} WHERE job_type = 'QUERY' AND statement_type IN "
            "('INSERT', 'UPDATE', 'SCRIPT') GROUP BY statement_type ORDER BY statement_type",
            [("INSERT", 1), ("SCRIPT", 1), ("UPDATE", 1)],
        ),
        (
            "SELECT destination_table.table_id AS name, dml_statistics.updated_row_count AS changed FROM "
            "`local-dev`.`region-us`.INFORMATION_SCHEMA.JOBS_BY_PROJECT WHERE statement_type = 'UPDATE'",
            [("t", 1)],
        ),
        (
            f"SELECT t.table_id, COUNT(*) AS n FROM {JOBS}, UNNEST(referenced_tables) AS t WHERE t.dataset_id = 'd' "
            "AND statement_type = 'SELECT' GROUP BY t.table_id",
            [("t", 2)],
        ),
        (
            f"SELECT error_result.reason FROM {JOBS} WHERE error_result.reason IS NOT NULL ORDER BY creation_time DESC "
            "LIMIT 3",
            [("invalidQuery",)],
        ),
        (
            f"SELECT job_id FROM {JOBS} WHERE state != 'DONE' AND "
            "creation_time <= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 30 MINUTE)",
            [],
        ),
        (
            f"SELECT SUM(total_slot_ms) / (1000 * 60 * 60 * 24 * 7) < 1 AS few FROM {JOBS} WHERE {RECENT} AND "
            "job_type = 'QUERY' AND statement_type != 'SCRIPT' AND end_time IS NOT NULL",
            [(True,)],
        ),
        (
            "SELECT TIMESTAMP_TRUNC(end_time, DAY) IS NOT NULL AS has_day, SUM(total_bytes_billed) AS billed FROM "
            f"{JOBS} WHERE statement_type IN ('UPDATE', 'INSERT') GROUP BY has_day",
            [(True, 10 << 20)],
        ),
        (
            "SELECT ARRAY_LENGTH(APPROX_QUANTILES(TIMESTAMP_DIFF(start_time, creation_time, MILLISECOND), 100)) AS n, "
            "APPROX_QUANTILES(TIMESTAMP_DIFF(start_time, creation_time, MILLISECOND), 100)[OFFSET(95)] < 60000 AS soon "
            f"FROM {JOBS} WHERE {RECENT} AND statement_type IN ('INSERT', 'UPDATE', 'DELETE', 'MERGE')",
            [(101, True)],
        ),
        (
            f"SELECT user_email IS NOT NULL, priority, cache_hit, reservation_id IS NULL FROM {JOBS} "
            "WHERE statement_type = 'INSERT'",
            [(True, "INTERACTIVE", False, True)],
        ),
    ],
)
def test_monitoring_queries(warehouse: Warehouse, sql: str, expected: list[tuple[object, ...]]) -> None:
    assert warehouse.view(sql) == expected


def test_a_running_query_sees_itself_and_the_children_of_scripts(warehouse: Warehouse) -> None:
    (found,) = warehouse.view(
        f"SELECT COUNTIF(state = 'RUNNING') AS n, COUNTIF(parent_job_id IS NOT NULL) AS m FROM {JOBS}"
    )
    assert found == (1, 2)


def test_it_bills_the_minimum_and_is_never_cached(warehouse: Warehouse) -> None:
    counts = [warehouse.view(f"SELECT COUNT(*) AS n FROM {JOBS}")[0][0] for _ in range(2)]
    assert counts[1] == counts[0] + 1
    assert warehouse.statistics(f"SELECT COUNT(*) AS n FROM {JOBS}")["totalBytesBilled"] == str(10 << 20)


def test_the_region_is_the_querys_own(warehouse: Warehouse) -> None:
    error = warehouse.run("SELECT job_id FROM `region-eu`.INFORMATION_SCHEMA.JOBS").error
    assert error is not None
    assert (error["reason"], "was not found in location US" in error["message"]) == ("notFound", True)


def test_a_column_without_values_here_is_refused(warehouse: Warehouse) -> None:
    error = warehouse.run(f"SELECT total_modified_partitions FROM {JOBS}").error
    assert error is not None
    assert "total_modified_partitions" in error["message"]


def test_jobs_are_shown_for_180_days(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("SELECT 1 AS x")
    warehouse.stand_in.clock.advance(181 * 24 * HOUR_US)
    assert warehouse.view(f"SELECT COUNT(*) AS n FROM {JOBS}") == [(1,)]  # this query


QUERIES_OF_JOBS = [sql for sql in re.findall(r"```sql\n(.*?)```", HOUR.read_text(), re.DOTALL) if "JOBS" in sql]


@pytest.mark.parametrize("sql", QUERIES_OF_JOBS)
def test_the_queries_of_jobs_in_the_documents_run(warehouse: Warehouse, sql: str) -> None:
    found = warehouse.view(sql)
    if "state != 'DONE'" in sql:
        assert [row[1:3] for row in found] == [("RUNNING", None)]  # this query
    else:
        assert found == [("load", 1, 0, 0, 0)]


def test_a_job_with_null_fields_has_no_labels_and_the_table_of_its_rows(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    query = {"query": "SELECT 1 AS x", "useLegacySql": False, "destinationTable": None}
    job = warehouse.wait(warehouse.start("", query=query, labels=None))
    table = job.configuration["query"]["destinationTable"]
    assert warehouse.rows(f"{table['datasetId']}.{table['tableId']}") == [(1,)]
    listed = warehouse.view(
        f"SELECT ARRAY_LENGTH(labels) AS n, destination_table.table_id FROM {JOBS} WHERE state = 'DONE'"
    )
    assert listed == [(0, table["tableId"])]
