"""Query jobs through google-cloud-bigquery: ids, results, statistics, dry runs, scripts, refusals."""

from __future__ import annotations

import time
import uuid
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.cloud import bigquery

from testkit.controlled_stand_in import ControlledStandIn
from testkit.local_servers import start_stand_in
from tests.shared.stand_in_client import (
    PROJECT,
    TODAY,
    Control,
    bigquery_client,
    days_ago,
    load_rows,
    make_table,
    rows_of,
)

MINIMUM_BILLED = 10 * 1024 * 1024


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    """Three days of ten rows: each row has a day and two numbers, 24 bytes."""
    make_table(client, f"{dataset}.t")
    load_rows(client, f"{dataset}.t", [(days_ago(day), key, day) for day in range(3) for key in range(10)])
    return f"{dataset}.t"


def test_job_id_is_used_once(client: bigquery.Client, table: str) -> None:
    job_id = f"insert-{uuid.uuid4().hex}"
    sql = f"INSERT INTO {table} (day, id, number) VALUES (DATE '2026-01-31', 1, 1)"
    first = client.query(sql, job_id=job_id, job_retry=None)
    first.result()
    assert first.num_dml_affected_rows == 1
    with pytest.raises(exceptions.Conflict, match="Already Exists: Job"):
        client.query(sql, job_id=job_id, job_retry=None)
    assert rows_of(client, f"SELECT COUNT(*) FROM {table}") == [(31,)]


def test_job_of_another_location_is_not_found(client: bigquery.Client) -> None:
    job = client.query("SELECT 1")
    job.result()
    assert client.get_job(job.job_id, location="US").state == "DONE"
    with pytest.raises(exceptions.NotFound, match="Not found: Job"):
        client.get_job(job.job_id, location="EU")


def test_results_are_paged(client: bigquery.Client, table: str) -> None:
    found = client.query(f"SELECT id, number FROM {table} ORDER BY number, id").result(page_size=12)
    pages = [[tuple(row.values()) for row in page] for page in found.pages]
    assert [len(page) for page in pages] == [12, 12, 6]
    assert [row for page in pages for row in page] == [(key, day) for day in range(3) for key in range(10)]


def test_results_can_be_read_again_from_the_job(client: bigquery.Client) -> None:
    job = client.query("SELECT x FROM UNNEST([3, 1, 2]) AS x ORDER BY x")
    assert [row.x for row in job.result()] == [1, 2, 3]
    again = client.get_job(job.job_id)
    assert [row.x for row in again.result()] == [1, 2, 3]
    assert [row.x for row in client.list_rows(again.destination)] == [1, 2, 3]


def test_only_a_query_job_has_results(client: bigquery.Client, table: str, stand_in: str) -> None:
    config = bigquery.LoadJobConfig(schema=client.get_table(table).schema)
    job = client.load_table_from_json([{"id": 1}], table, job_config=config)
    job.result()
    url = f"http://{stand_in}/bigquery/v2/projects/{PROJECT}/queries/{job.job_id}"
    answer = requests.get(url, timeout=30)
    assert answer.status_code == 400
    assert "is a load job" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("select", "where", "expected"),
    [
        ("*", "TRUE", 30 * 24),
        ("id", "TRUE", 30 * 8),
        ("COUNT(*)", "TRUE", 0),
        ("TO_JSON_STRING(t) AS whole_row", "TRUE", 30 * 24),
        ("id", "number = 1", 30 * 16),
        ("id", "day = CURRENT_DATE()", 10 * 16),
        ("id", "day >= DATE_SUB(CURRENT_DATE(), INTERVAL 1 DAY) AND number >= 0", 20 * 24),
        ("id", "day IN (SELECT MAX(day) FROM {table})", 30 * 16),
        ("id", "day = @today", 10 * 16),
    ],
)
def test_bytes_are_those_of_the_referenced_columns_of_unpruned_partitions(
    client: bigquery.Client, table: str, select: str, where: str, expected: int
) -> None:
    parameters = [bigquery.ScalarQueryParameter("today", "DATE", TODAY)]
    sql = f"SELECT {select} FROM {table} WHERE {where.format(table=table)}"
    job = client.query(sql, job_config=bigquery.QueryJobConfig(query_parameters=parameters))
    job.result()
    assert job.total_bytes_processed == expected
    assert job.total_bytes_billed == (MINIMUM_BILLED if expected else 0)
    dry = client.query(sql, job_config=bigquery.QueryJobConfig(dry_run=True, query_parameters=parameters))
    assert dry.total_bytes_processed == expected


def test_dry_run_returns_schema_and_tables_and_stores_no_job(client: bigquery.Client, table: str) -> None:
    before = {job.job_id for job in client.list_jobs()}
    job = client.query(f"SELECT day, id FROM {table}", job_config=bigquery.QueryJobConfig(dry_run=True))
    assert (job.state, job.dry_run, job.statement_type) == ("DONE", True, "SELECT")
    assert [field.name for field in job.schema] == ["day", "id"]
    assert [item.table_id for item in job.referenced_tables] == ["t"]
    assert {job.job_id for job in client.list_jobs()} == before


def test_bytes_billed_limit_stops_the_query(client: bigquery.Client, table: str) -> None:
    config = bigquery.QueryJobConfig(maximum_bytes_billed=1024)
    with pytest.raises(exceptions.BadRequest, match="Query exceeded limit for bytes billed: 1024"):
        client.query_and_wait(f"SELECT * FROM {table}", job_config=config)


def test_partition_filter_can_be_required(client: bigquery.Client, table: str) -> None:
    client.query_and_wait(f"ALTER TABLE {table} SET OPTIONS (require_partition_filter = TRUE)")
    with pytest.raises(exceptions.BadRequest, match="without a filter over column"):
        client.query_and_wait(f"SELECT COUNT(*) FROM {table}")
    assert rows_of(client, f"SELECT COUNT(*) FROM {table} WHERE day = CURRENT_DATE()") == [(10,)]


def test_script_declares_branches_and_returns_its_last_result(client: bigquery.Client, table: str) -> None:
    script = f"""
    DECLARE newest DATE DEFAULT (SELECT MAX(day) FROM {table});
    DECLARE found INT64;
    SET found = (SELECT COUNT(*) FROM {table} WHERE day = newest);
    IF found = 10 THEN
      SELECT 'all' AS verdict, found AS n;
    ELSE
      SELECT 'some' AS verdict, found AS n;
    END IF;
    """
    job = client.query(script)
    assert [tuple(row.values()) for row in job.result()] == [("all", 10)]
    assert (job.statement_type, job.num_child_jobs) == ("SCRIPT", 1)


def test_failed_script_keeps_what_was_committed_before(client: bigquery.Client, dataset: str) -> None:
    script = f"CREATE TABLE {dataset}.kept (n INT64); ASSERT 1 = 2 AS 'numbers differ'; DROP TABLE {dataset}.kept;"
    with pytest.raises(exceptions.BadRequest, match="numbers differ"):
        client.query(script).result()
    assert client.get_table(f"{dataset}.kept").num_rows == 0


def test_parameters_of_every_shape(client: bigquery.Client) -> None:
    config = bigquery.QueryJobConfig(
        query_parameters=[
            bigquery.ScalarQueryParameter("d", "DATE", date(2026, 1, 31)),
            bigquery.ArrayQueryParameter("l", "INT64", [1, 2]),
            bigquery.StructQueryParameter("s", bigquery.ScalarQueryParameter("x", "STRING", "y")),
            bigquery.ScalarQueryParameter("none", "INT64", None),
        ]
    )
    found = rows_of(client, "SELECT @d, @l, @s.x, @none", job_config=config)
    assert found == [(date(2026, 1, 31), [1, 2], "y", None)]
    positional = bigquery.QueryJobConfig(query_parameters=[bigquery.ScalarQueryParameter(None, "INT64", 5)])
    assert rows_of(client, "SELECT ? + 1", job_config=positional) == [(6,)]


def test_parameters_need_their_mode_which_the_client_library_adds(client: bigquery.Client) -> None:
    parameter = {"name": "x", "parameterType": {"type": "INT64"}, "parameterValue": {"value": "5"}}
    body = {"query": "SELECT @x", "useLegacySql": False, "queryParameters": [parameter]}
    with pytest.raises(exceptions.BadRequest, match=r"parameterMode is \[None\], expected \[NAMED\] or \[POSITIONAL\]"):
        client._connection.api_request(method="POST", path=f"/projects/{PROJECT}/queries", data=body)
    named = {**body, "parameterMode": "NAMED"}
    answer = client._connection.api_request(method="POST", path=f"/projects/{PROJECT}/queries", data=named)
    assert answer["rows"] == [{"f": [{"v": "5"}]}]
    job = bigquery.QueryJob.from_api_repr(
        {"jobReference": {"projectId": PROJECT, "jobId": str(uuid.uuid4())}, "configuration": {"query": body}}, client
    )
    job._begin()
    assert [tuple(row) for row in job.result()] == [(5,)]


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"type": "ARRAY"},
        {"type": "STRUCT", "structTypes": [{"name": "a", "type": {}}]},
        {"type": "STRUCT", "structTypes": [{"name": "a"}]},
    ],
)
def test_a_parameter_without_a_type_is_refused_by_its_name(client: bigquery.Client, kind: dict[str, Any]) -> None:
    parameter = {"name": "x", "parameterType": kind, "parameterValue": {"value": "5"}}
    body = {"query": "SELECT @x", "useLegacySql": False, "parameterMode": "NAMED", "queryParameters": [parameter]}
    with pytest.raises(exceptions.BadRequest, match=r"Query parameter \[x\] lacks parameterType.type"):
        client._connection.api_request(method="POST", path=f"/projects/{PROJECT}/queries", data=body)


def test_a_parameter_that_is_an_array_of_arrays_is_refused(client: bigquery.Client) -> None:
    kind = {"type": "ARRAY", "arrayType": {"type": "ARRAY", "arrayType": {"type": "INT64"}}}
    parameter = {"name": "x", "parameterType": kind, "parameterValue": {"arrayValues": [{"arrayValues": []}]}}
    body = {"query": "SELECT @x", "useLegacySql": False, "queryParameters": [parameter], "parameterMode": "NAMED"}
    with pytest.raises(exceptions.BadRequest, match="nested arrays are not supported"):
        client._connection.api_request(method="POST", path=f"/projects/{PROJECT}/queries", data=body)


@pytest.mark.parametrize(
    ("kinds", "message"), [([], "Required parameter is missing"), (["query", "load"], "More than one kind of job")]
)
def test_a_job_has_one_kind(client: bigquery.Client, kinds: list[str], message: str) -> None:
    configuration = {kind: {"query": "SELECT 1"} if kind == "query" else {"sourceFormat": "CSV"} for kind in kinds}
    with pytest.raises(exceptions.BadRequest, match=message):
        client._connection.api_request(
            method="POST", path=f"/projects/{PROJECT}/jobs", data={"configuration": configuration}
        )


def test_select_can_be_kept_in_a_table(client: bigquery.Client, table: str, dataset: str) -> None:
    destination = f"{PROJECT}.{dataset}.kept"

    def keep(disposition: str) -> None:
        config = bigquery.QueryJobConfig(destination=destination, write_disposition=disposition)
        client.query(f"SELECT id FROM {table} WHERE number = 0", job_config=config).result()

    keep("WRITE_EMPTY")
    with pytest.raises(exceptions.Conflict, match="Already Exists: Table"):
        keep("WRITE_EMPTY")
    keep("WRITE_APPEND")
    assert client.get_table(destination).num_rows == 20
    keep("WRITE_TRUNCATE")
    assert client.get_table(destination).num_rows == 10


def test_create_table_as_select_keeps_layout(client: bigquery.Client, table: str, dataset: str) -> None:
    sql = f"CREATE OR REPLACE TABLE {dataset}.copy PARTITION BY day CLUSTER BY id AS SELECT * FROM {table}"
    job = client.query(sql)
    job.result()
    assert (job.statement_type, job.ddl_operation_performed) == ("CREATE_TABLE_AS_SELECT", "CREATE")
    copy = client.get_table(f"{dataset}.copy")
    assert (copy.num_rows, copy.time_partitioning.field, copy.clustering_fields) == (30, "day", ["id"])
    with pytest.raises(exceptions.BadRequest, match="different partitioning spec"):
        client.query_and_wait(f"CREATE OR REPLACE TABLE {dataset}.copy AS SELECT * FROM {table}")


def test_deduplication_by_qualify(client: bigquery.Client, dataset: str) -> None:
    sql = f"""
    CREATE TABLE {dataset}.q AS
    SELECT * FROM UNNEST([STRUCT(1 AS k, 1 AS v), STRUCT(1 AS k, 2 AS v), STRUCT(2 AS k, 5 AS v)])
    QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) = 1
    """
    client.query_and_wait(sql)
    assert rows_of(client, f"SELECT k, v FROM {dataset}.q ORDER BY k") == [(1, 2), (2, 5)]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELEC 1", exceptions.BadRequest, "Syntax error"),
        ("SELECT missing FROM UNNEST([1]) AS x", exceptions.BadRequest, "missing"),
        ("SELECT * FROM nowhere.t", exceptions.NotFound, "Dataset local-dev:nowhere was not found in location US"),
        ("CREATE VIEW a.b AS SELECT 1 AS n", exceptions.MethodNotImplemented, "CREATE VIEW"),
        ("SELECT 1 / 0", exceptions.BadRequest, "division by zero"),
    ],
)
def test_refused_queries_name_the_reason(client: bigquery.Client, sql: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        client.query(sql).result()


def test_legacy_sql_is_refused(client: bigquery.Client) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match="useLegacySql"):
        client.query("SELECT 1", job_config=bigquery.QueryJobConfig(use_legacy_sql=True))


def test_expired_partitions_vanish_when_the_clock_moves(tmp_path: Path) -> None:
    """On a separate stand-in, because the clock cannot be moved back."""
    with start_stand_in(tmp_path) as address:
        client, control = bigquery_client(address), Control(address)
        client.create_dataset("d")
        make_table(client, "d.short", expiration_days=5)
        load_rows(client, "d.short", [(days_ago(0), 1, 1), (days_ago(4), 1, 1)])
        assert client.get_table("d.short").num_rows == 2
        control.advance(days=2)
        assert rows_of(client, "SELECT day FROM d.short") == [(days_ago(0),)]
        assert client.get_table("d.short").num_rows == 1


def test_lost_reply_does_not_run_a_job_twice(client: bigquery.Client, table: str, control: Control) -> None:
    """The client sends the job again with the same id, and gets the first job."""
    control.add_fault(match={"method": "POST", "path": "/jobs$"}, effect="lost_reply")
    client.query(f"INSERT INTO {table} (day, id, number) VALUES (DATE '2026-01-31', 99, 1)").result()
    assert rows_of(client, f"SELECT COUNT(*) FROM {table} WHERE id = 99") == [(1,)]


def test_faults_fail_delay_and_queue_jobs(client: bigquery.Client, table: str, control: Control) -> None:
    control.add_fault(match={"job_type": "query", "job_id": "^fault-"}, effect="quota", message="Too much")
    with pytest.raises(exceptions.Forbidden, match="Quota exceeded: Too much"):
        client.query("SELECT 1", job_id=f"fault-{uuid.uuid4().hex}", job_retry=None).result(retry=None)
    control.add_fault(match={"job_type": "query", "job_id": "^wait-"}, effect="queue")
    waiting = client.query("SELECT 1", job_id=f"wait-{uuid.uuid4().hex}", job_retry=None)
    assert client.get_job(waiting.job_id).state == "PENDING"
    client.cancel_job(waiting.job_id)
    with pytest.raises(exceptions.GoogleAPICallError, match="cancelled"):
        waiting.result()
    control.add_fault(match={"method": "GET", "path": "/datasets/"}, effect="error", status=404, reason="notFound")
    with pytest.raises(exceptions.NotFound, match="Fault on purpose"):
        client.get_table(table)


def test_jobs_that_are_pending_are_waited_for(client: bigquery.Client, control: Control) -> None:
    job_id = f"pending-{uuid.uuid4().hex}"
    control.add_fault(match={"job_id": job_id}, effect="queue", seconds=3)
    client.query("SELECT 1", job_id=job_id, job_retry=None)
    assert client.get_job(job_id).state == "PENDING"
    ControlledStandIn(client).wait_for_all_jobs()
    assert client.get_job(job_id).state == "DONE"


def test_a_job_stops_at_its_timeout(client: bigquery.Client, control: Control) -> None:
    """Source: REST reference of jobs, JobConfiguration.jobTimeoutMs."""
    control.add_fault(match={"job_type": "query", "job_id": "^timeout-"}, effect="queue")
    config = bigquery.QueryJobConfig(job_timeout_ms=200)
    job = client.query("SELECT 1", job_id=f"timeout-{uuid.uuid4().hex}", job_config=config, job_retry=None)
    with pytest.raises(exceptions.GoogleAPICallError, match="Job timed out"):
        job.result(retry=None)


@pytest.mark.exhaustive
def test_a_query_may_run_for_six_hours(tmp_path: Path) -> None:
    """Source: "Quotas and limits", query jobs. Load jobs have the same limit."""
    with start_stand_in(tmp_path) as address:
        client, control = bigquery_client(address), Control(address)
        control.add_fault(match={"job_type": "query"}, effect="delay", seconds=5)
        job = client.query("SELECT 1", job_retry=None)
        while client.get_job(job.job_id).state != "RUNNING":
            time.sleep(0.01)
        control.advance(hours=6)
        with pytest.raises(exceptions.GoogleAPICallError, match="Job timed out"):
            job.result(retry=None)


def test_set_takes_the_fields_of_a_struct(client: bigquery.Client) -> None:
    """One variable in parentheses, too, gets a field. Source: "Procedural language", SET."""
    script = """
    DECLARE a ARRAY<INT64>; DECLARE b, c INT64;
    SET (a) = (SELECT AS STRUCT ARRAY_AGG(n) FROM UNNEST([1, 2]) AS n);
    SET (b, c) = (SELECT AS STRUCT 3, 4);
    SELECT ARRAY_LENGTH(a), b, c;
    """
    assert rows_of(client, script) == [(2, 3, 4)]


def test_a_job_names_the_table_that_it_creates(client: bigquery.Client, dataset: str) -> None:
    job = client.query(f"CREATE TABLE {dataset}.made AS SELECT 1 AS n")
    job.result()
    assert (job.destination.dataset_id, job.destination.table_id) == (dataset, "made")


def test_jobs_are_listed_with_their_state(client: bigquery.Client) -> None:
    job = client.query("SELECT 1")
    job.result()
    listed: dict[str, Any] = {item.job_id: item for item in client.list_jobs(state_filter="done", max_results=10)}
    assert job.job_id in listed
    assert job.created <= job.started <= job.ended


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ARRAY_AGG(x) AS found FROM UNNEST([1, NULL]) AS x",
        "SELECT STRUCT([1, NULL] AS found) AS outer_field",
        "CREATE TABLE {dataset}.copy AS SELECT [1, NULL] AS found",
    ],
)
def test_an_array_of_a_result_has_no_null_element(client: bigquery.Client, dataset: str, sql: str) -> None:
    """Source: aggregate_functions, ARRAY_AGG; data-types, NULLs and the array type."""
    with pytest.raises(exceptions.BadRequest, match="Array cannot have a null element; error in writing field found"):
        client.query_and_wait(sql.format(dataset=dataset))
    found = rows_of(client, "SELECT ARRAY_AGG(x IGNORE NULLS) FROM UNNEST([1, NULL]) AS x")
    assert found == [([1],)]
