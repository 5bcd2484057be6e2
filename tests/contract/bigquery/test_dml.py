"""UPDATE, DELETE, MERGE and TRUNCATE TABLE through google-cloud-bigquery.

Rules of "Data manipulation language (DML) statements in GoogleSQL", "Using data manipulation language (DML)" and
"Estimate and control costs".
"""

from __future__ import annotations

import threading
import uuid
from datetime import date
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage

from testkit.waiting import wait_for
from tests.shared.stand_in_client import (
    PROJECT,
    TODAY,
    Control,
    days_ago,
    load_rows,
    make_table,
    rows_of,
    snapshot,
    upload,
)

MINIMUM_BILLED = 10 * 1024 * 1024
ROW_BYTES = 24


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    """Three days with the keys 0 to 9; the number is the age of the row in days."""
    make_table(client, f"{dataset}.t")
    load_rows(client, f"{dataset}.t", [(days_ago(day), key, day) for day in range(3) for key in range(10)])
    return f"{dataset}.t"


def run(client: bigquery.Client, sql: str, **options: Any) -> Any:
    job = client.query(sql, **options)
    job.result()
    return job


def counts(job: Any) -> tuple[str, int, dict[str, str]]:
    return job.statement_type, job.num_dml_affected_rows, job._properties["statistics"]["query"]["dmlStats"]


def changed_days(client: bigquery.Client, table: str) -> dict[str, Any]:
    dataset, name = table.split(".")
    view = f"{dataset}.INFORMATION_SCHEMA.PARTITIONS"
    return dict(rows_of(client, f"SELECT partition_id, last_modified_time FROM {view} WHERE table_name = '{name}'"))


def test_update_rewrites_only_the_partitions_of_its_rows(client: bigquery.Client, table: str) -> None:
    before = changed_days(client, table)
    job = run(client, f"UPDATE {table} SET number = number + 100 WHERE day = CURRENT_DATE() AND id < 2")
    assert counts(job) == ("UPDATE", 2, {"updatedRowCount": "2"})
    assert rows_of(client, f"SELECT day, id, number FROM {table} WHERE number >= 100 ORDER BY id") == [
        (TODAY, 0, 100),
        (TODAY, 1, 100),
    ]
    after = changed_days(client, table)
    assert {key for key in after if after[key] != before[key]} == {f"{TODAY:%Y%m%d}"}
    assert client.get_table(table).num_rows == 30


def test_statement_bills_what_it_scans_and_the_whole_partitions_that_it_updates(
    client: bigquery.Client, table: str
) -> None:
    """Source: "Estimate and control costs", DML on partitioned tables; only a constant filter prunes days."""
    pruned = run(client, f"UPDATE {table} SET number = 7 WHERE day = CURRENT_DATE() AND id = 0")
    assert pruned.total_bytes_processed == 10 * 16 + 10 * ROW_BYTES
    assert pruned.total_bytes_billed == MINIMUM_BILLED
    whole = run(client, f"UPDATE {table} SET number = 7 WHERE day = (SELECT CURRENT_DATE()) AND id = 0")
    assert whole.total_bytes_processed == 30 * 16 + 10 * ROW_BYTES
    none = run(client, f"DELETE FROM {table} WHERE id = 99")
    assert none.total_bytes_processed == 30 * 8
    client.query_and_wait(f"CREATE TABLE {table}_unclustered PARTITION BY day AS SELECT * FROM {table}")
    for name, processed in ((table, 10 * 8 + 10 * ROW_BYTES), (f"{table}_unclustered", 0)):
        deleted = run(client, f"DELETE FROM {name} WHERE day = CURRENT_DATE()")
        assert (deleted.num_dml_affected_rows, deleted.total_bytes_processed) == (10, processed)
    with pytest.raises(exceptions.GoogleAPICallError, match="Query exceeded limit for bytes billed"):
        run(client, f"DELETE {table} WHERE id = 1", job_config=bigquery.QueryJobConfig(maximum_bytes_billed=1024))


def test_merge_bills_the_source_once_and_prunes_by_a_constant_in_on(client: bigquery.Client, table: str) -> None:
    sql = """
    MERGE {table} AS t USING (SELECT 3 AS id, 5 AS number) AS s ON t.id = s.id{more}
    WHEN MATCHED THEN UPDATE SET number = s.number
    """
    everything = run(client, sql.format(table=table, more=""))
    assert everything.total_bytes_processed == 30 * 8 + 30 * ROW_BYTES
    one_day = run(client, sql.format(table=table, more=" AND t.day = CURRENT_DATE()"))
    assert one_day.total_bytes_processed == 10 * 16 + 10 * ROW_BYTES
    inserts = (
        f"MERGE {table} AS t USING (SELECT 30 AS id) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (id)"
    )
    assert run(client, inserts).total_bytes_processed == 30 * 8
    alone = sql + "WHEN NOT MATCHED BY SOURCE AND t.id = 9 THEN DELETE"
    job = run(client, alone.format(table=table, more=" AND t.day = CURRENT_DATE()"))
    assert job.total_bytes_processed == 31 * 8 + 30 * 8 + 30 * ROW_BYTES  # a NULL day has no bytes


def test_dry_run_returns_the_upper_bound_of_billed_bytes(client: bigquery.Client, table: str) -> None:
    config = bigquery.QueryJobConfig(dry_run=True)
    job = client.query(f"UPDATE {table} SET number = 7 WHERE day = CURRENT_DATE() AND id = 0", job_config=config)
    query = job._properties["statistics"]["query"]
    assert (job.statement_type, job.total_bytes_processed) == ("UPDATE", 10 * 16 + 10 * ROW_BYTES)
    assert query["totalBytesProcessedAccuracy"] == "UPPER_BOUND"
    assert "dmlStats" not in query
    merge = f"MERGE {table} AS t USING {table} AS s ON t.id = s.id WHEN MATCHED THEN DELETE"
    assert client.query(merge, job_config=config).total_bytes_processed == 30 * 8 + 30 * ROW_BYTES
    with pytest.raises(exceptions.BadRequest, match="absent"):
        client.query(f"DELETE FROM {table} WHERE absent = 1", job_config=config)
    with pytest.raises(exceptions.BadRequest, match="add a CAST"):
        client.query(f"UPDATE {table} SET number = 'x' WHERE TRUE", job_config=config)
    assert client.get_table(table).num_rows == 30


def test_merge_updates_inserts_and_deletes(client: bigquery.Client, table: str, dataset: str) -> None:
    make_table(client, f"{dataset}.s")
    run(
        client,
        f"INSERT {dataset}.s VALUES (CURRENT_DATE(), 1, 50), (CURRENT_DATE(), 2, NULL), (CURRENT_DATE(), 77, 60)",
    )
    job = run(
        client,
        f"""
        MERGE {table} AS t USING {dataset}.s AS s ON t.day = s.day AND t.id = s.id
        WHEN MATCHED AND s.number IS NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET number = s.number
        WHEN NOT MATCHED BY TARGET THEN INSERT ROW
        WHEN NOT MATCHED BY SOURCE AND t.day < CURRENT_DATE() AND t.id > 0 THEN DELETE
        """,
    )
    assert counts(job) == (
        "MERGE",
        21,
        {"insertedRowCount": "1", "updatedRowCount": "1", "deletedRowCount": "19"},
    )
    assert {item.table_id for item in job.referenced_tables} == {"t", "s"}
    found = rows_of(client, f"SELECT day, id, number FROM {table} WHERE day < CURRENT_DATE() OR number > 0")
    assert sorted(found) == sorted([(days_ago(1), 0, 1), (days_ago(2), 0, 2), (TODAY, 1, 50), (TODAY, 77, 60)])


@pytest.mark.parametrize(
    "sql",
    [
        "MERGE {t} USING UNNEST_TWICE AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET number = s.n",
        "MERGE {t} USING UNNEST_TWICE AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "UPDATE {t} SET number = s.n FROM UNNEST_TWICE AS s WHERE t.id = s.id",
    ],
)
def test_two_source_rows_for_a_target_row_are_refused(client: bigquery.Client, table: str, sql: str) -> None:
    """Source: "DML statements in GoogleSQL", UPDATE with joins and MERGE."""
    twice = "(SELECT 1 AS id, n FROM UNNEST([1, 2]) AS n)"
    with pytest.raises(exceptions.BadRequest, match="must match at most one source row for each target row"):
        run(client, sql.replace("UNNEST_TWICE", twice).format(t=table))
    assert rows_of(client, f"SELECT COUNT(*), SUM(number) FROM {table}") == [(30, 30)]


def test_external_table_is_merged_in(client: bigquery.Client, bucket: storage.Bucket, table: str) -> None:
    uri = upload(bucket, f"merge/{uuid.uuid4().hex}.parquet", snapshot([TODAY], 9, rows_per_day=11))
    external = bigquery.ExternalConfig("PARQUET")
    external.source_uris = [uri]
    config = bigquery.QueryJobConfig(table_definitions={"delivery": external})
    sql = f"""
    MERGE {table} AS t USING delivery AS s ON t.day = s.day AND t.id = s.id
    WHEN MATCHED THEN UPDATE SET number = s.number WHEN NOT MATCHED THEN INSERT ROW
    """
    assert counts(run(client, sql, job_config=config))[2] == {
        "insertedRowCount": "1", "updatedRowCount": "10", "deletedRowCount": "0",
    }  # fmt: skip
    named = f"MERGE {table} AS t USING delivery AS s ON _FILE_NAME = '{uri}' AND t.id = s.id AND t.day = s.day "
    assert run(client, named + "WHEN MATCHED THEN DELETE", job_config=config).num_dml_affected_rows == 11
    with pytest.raises(exceptions.BadRequest, match="external table"):
        run(client, "DELETE FROM delivery WHERE TRUE", job_config=config)


def test_truncate_is_free_and_keeps_the_table(client: bigquery.Client, table: str) -> None:
    made = client.get_table(table)
    job = run(client, f"TRUNCATE TABLE {table}")
    assert (job.statement_type, job.total_bytes_billed) == ("TRUNCATE_TABLE", 0)
    found = client.get_table(table)
    assert (found.num_rows, found.created, found.clustering_fields) == (0, made.created, ["id"])
    assert found.time_partitioning.expiration_ms == made.time_partitioning.expiration_ms


def test_clone_can_be_changed_and_stays_a_clone(client: bigquery.Client, table: str, dataset: str) -> None:
    run(client, f"CREATE TABLE {dataset}.copy CLONE {table}")
    run(client, f"UPDATE {dataset}.copy SET number = -1 WHERE id = 0")
    assert "cloneDefinition" in client.get_table(f"{dataset}.copy").to_api_repr()
    assert rows_of(client, f"SELECT COUNT(*) FROM {table} WHERE number < 0") == [(0,)]
    assert rows_of(client, f"SELECT COUNT(*) FROM {dataset}.copy WHERE number < 0") == [(3,)]


def test_past_stays_readable(client: bigquery.Client, table: str, control: Control) -> None:
    before = control.now()
    run(client, f"DELETE FROM {table} WHERE id > 0")
    at = bigquery.QueryJobConfig(query_parameters=[bigquery.ScalarQueryParameter("at", "TIMESTAMP", before)])
    assert rows_of(client, f"SELECT COUNT(*) FROM {table} FOR SYSTEM_TIME AS OF @at", job_config=at) == [(30,)]
    assert rows_of(client, f"SELECT COUNT(*) FROM {table}") == [(3,)]


def test_required_columns_and_types_are_kept(client: bigquery.Client, dataset: str) -> None:
    run(
        client,
        f"CREATE TABLE {dataset}.r (day DATE, k INT64 NOT NULL, s STRING, x STRUCT<a INT64, b STRING>) "
        "PARTITION BY day",
    )
    run(client, f"INSERT {dataset}.r (day, k, s) VALUES (CURRENT_DATE(), 1, 'a')")
    for sql, message in (
        (f"UPDATE {dataset}.r SET k = NULL WHERE TRUE", "Required field k cannot be null"),
        (f"MERGE {dataset}.r USING (SELECT 1 AS n) ON FALSE WHEN NOT MATCHED THEN INSERT (s) VALUES ('x')", "Required"),
        (f"UPDATE {dataset}.r SET s = 1 WHERE TRUE", "type"),
        (f"UPDATE {dataset}.r SET absent = 1 WHERE TRUE", "Column absent is not present"),
        (f"UPDATE {dataset}.r SET x.absent = 1 WHERE TRUE", "Field name absent does not exist"),
        (f"MERGE {dataset}.r USING (SELECT 1 AS n) ON FALSE WHEN NOT MATCHED THEN INSERT ROW", "wrong column count"),
    ):
        with pytest.raises(exceptions.BadRequest, match=message):
            run(client, sql)
    run(client, f"UPDATE {dataset}.r SET s = NULL, x.b = 'y', k = k + 1 WHERE TRUE")
    assert rows_of(client, f"SELECT k, s, x.a, x.b FROM {dataset}.r") == [(2, None, None, "y")]


def test_row_moves_with_its_partition_column(client: bigquery.Client, table: str) -> None:
    run(client, f"UPDATE {table} SET day = CURRENT_DATE() WHERE number = 2")
    assert rows_of(client, f"SELECT day, COUNT(*) FROM {table} GROUP BY day ORDER BY day") == [
        (days_ago(1), 10),
        (TODAY, 20),
    ]
    assert len(changed_days(client, table)) == 2


def test_partition_filter_can_be_required(client: bigquery.Client, table: str) -> None:
    run(client, f"ALTER TABLE {table} SET OPTIONS (require_partition_filter = TRUE)")
    with pytest.raises(exceptions.BadRequest, match="without a filter over column"):
        run(client, f"DELETE FROM {table} WHERE id = 1")
    run(client, f"DELETE FROM {table} WHERE id = 1 AND day >= CURRENT_DATE()")


def test_correlated_subqueries_of_merge_are_refused(client: bigquery.Client, table: str) -> None:
    """Source: "Using data manipulation language (DML)", limitations."""
    sql = f"""
    MERGE {table} AS t USING (SELECT 1 AS id) AS s ON t.id = s.id
    WHEN MATCHED AND EXISTS (SELECT 1 FROM {table} AS o WHERE o.id = t.id) THEN DELETE
    """
    with pytest.raises(exceptions.BadRequest, match="Correlated subqueries"):
        run(client, sql)


def test_script_changes_rows_with_its_variables(client: bigquery.Client, table: str) -> None:
    script = f"""
    DECLARE number INT64 DEFAULT 1;
    DECLARE chosen INT64 DEFAULT 4;
    DELETE FROM {table} WHERE id = chosen;
    UPDATE {table} SET number = chosen WHERE id = 5;
    MERGE {table} AS t USING (SELECT chosen AS id) AS s ON t.id = s.id
      WHEN NOT MATCHED THEN INSERT (day, id, number) VALUES (CURRENT_DATE(), s.id, chosen);
    SELECT COUNT(*) AS n, COUNTIF({table.split(".")[1]}.number = chosen) AS changed FROM {table};
    """
    job = client.query(script)
    assert [tuple(row.values()) for row in job.result()] == [(28, 4)]
    children = {child.statement_type: child for child in client.list_jobs(parent_job=job.job_id)}
    assert {"DELETE", "UPDATE", "MERGE", "SELECT"} <= set(children)
    assert children["DELETE"].num_dml_affected_rows == 3


def test_destination_table_is_refused(client: bigquery.Client, table: str, dataset: str) -> None:
    config = bigquery.QueryJobConfig(destination=f"{PROJECT}.{dataset}.x")
    with pytest.raises(exceptions.BadRequest, match="Cannot set destination table"):
        run(client, f"DELETE FROM {table} WHERE TRUE", job_config=config)


@pytest.mark.exhaustive
def test_two_statements_run_and_twenty_wait(client: bigquery.Client, table: str, control: Control) -> None:
    """Source: "Using data manipulation language (DML)", UPDATE, DELETE, MERGE DML concurrency."""
    prefix = f"line-{uuid.uuid4().hex[:8]}"
    control.add_fault(match={"job_type": "query", "job_id": f"^{prefix}"}, effect="delay", seconds=10, times=2)
    jobs = []
    for number in range(1, 24):
        # They match no rows, because two statements that change the same rows could conflict.
        statement = f"DELETE FROM {table} WHERE id = -{number}"
        jobs.append(client.query(statement, job_id=f"{prefix}-{number:02}", job_retry=None))
        if number <= 2:  # a later job must not overtake the two that the fault holds
            wait_for(lambda: client.get_job(jobs[-1].job_id).state == "RUNNING", "the job runs", poll_interval_s=0.01)
    ended = [client.get_job(job.job_id) for job in jobs]
    refused = [job for job in ended if job.error_result is not None]
    assert [job.error_result["reason"] for job in refused] == ["resourcesExceeded"]
    assert "Too many DML statements outstanding" in refused[0].error_result["message"]
    assert sum(job.state == "PENDING" for job in ended) == 20
    cancelled = next(job for job in ended if job.state == "PENDING")
    client.cancel_job(cancelled.job_id)
    for job in ended:
        if job.job_id not in (refused[0].job_id, cancelled.job_id):
            client.get_job(job.job_id).result()
    assert client.get_job(cancelled.job_id).error_result["reason"] == "stopped"


def test_statements_on_other_days_do_not_disturb_each_other(client: bigquery.Client, table: str) -> None:
    def work(day: date) -> None:
        for _ in range(3):
            run(client, f"UPDATE {table} SET number = number + 1 WHERE day = DATE '{day}'")

    threads = [threading.Thread(target=work, args=(days_ago(day),)) for day in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows_of(client, f"SELECT day, MIN(number), MAX(number) FROM {table} GROUP BY day ORDER BY day DESC") == [
        (days_ago(day), day + 3, day + 3) for day in range(3)
    ]


def test_faults_stop_a_statement_whole(client: bigquery.Client, table: str, control: Control) -> None:
    control.add_fault(match={"job_type": "query", "job_id": "^broken-"}, effect="error", reason="backendError")
    with pytest.raises(exceptions.GoogleAPICallError, match="Fault on purpose"):
        client.query(f"DELETE FROM {table} WHERE TRUE", job_id=f"broken-{uuid.uuid4().hex}", job_retry=None).result(
            retry=None
        )
    assert client.get_table(table).num_rows == 30
