"""Jobs: files that are loaded, requests that are refused or repeated, jobs that end early, and the view of all jobs.

Sources: REST reference of jobs; "Loading JSON data from Cloud Storage"; "Loading Parquet data"; "JOBS view".
"""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery import LoadJob, LoadJobConfig, ParquetOptions, QueryJobConfig, SchemaField

from testkit.waiting import wait_for
from tests.bigquery_standin.warehouse import PROJECT, Warehouse
from tests.spark.file_catalogue import STORED, TABLE, expected

JOBS = "`region-us`.INFORMATION_SCHEMA.JOBS"
MOMENT = datetime(2026, 1, 31, 1, 2, 3, tzinfo=UTC)
URL = f"/bigquery/v2/projects/{PROJECT}"


def load(warehouse: Warehouse, content: bytes, *fields: SchemaField, **options: Any) -> LoadJob:
    """Load a file into the new table d.t. `options`: of LoadJobConfig."""
    warehouse.job("DROP TABLE IF EXISTS d.t")
    given = {"source_format": "NEWLINE_DELIMITED_JSON", "schema": fields or None, **options}
    config = LoadJobConfig(**{name: value for name, value in given.items() if value is not None})
    job = warehouse.client.load_table_from_file(io.BytesIO(content), "d.t", size=len(content), job_config=config)
    return job.result(retry=None)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("INT64", "5", 5),
        ("INT64", 5.0, 5),
        ("FLOAT64", "1.5", 1.5),
        ("BOOL", "TRUE", True),
        ("STRING", 1.5, "1.5"),
        ("STRING", True, "true"),
        ("BYTES", "AP8=", b"\x00\xff"),
        ("DATE", "2026-01-31", date(2026, 1, 31)),
        ("TIMESTAMP", "2026-01-31 01:02:03 UTC", MOMENT),
        ("TIMESTAMP", "2026-01-31T03:02:03+02:00", MOMENT),
        ("TIMESTAMP", MOMENT.timestamp(), MOMENT),
        ("NUMERIC", "0.1", Decimal("0.1")),
    ],
)
def test_json_values_are_converted(warehouse: Warehouse, kind: str, value: Any, expected: Any) -> None:
    load(warehouse, json.dumps({"c": value}).encode(), SchemaField("c", kind))
    assert warehouse.stored("d.t") == [(expected,)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("INT64", value) for value in ("x", 1.5, "1_000", True, 2**63)),
        *(("FLOAT64", value) for value in ("1_000", True)),
        *(("NUMERIC", value) for value in ("1_000", "1" * 30, "0.0123456789")),
        *(("TIMESTAMP", value) for value in (True, 10**20)),
        ("BOOL", 1),
        ("DATE", "31.1.2026"),
        ("STRING", {"a": 1}),
        ("STRING", "\ud800"),
        ("ARRAY", 5),
        ("ARRAY", ["a", None]),
        ("REQUIRED", None),
        ("RECORD", {"e": 1}),
        ("RECORD", [1]),
    ],
)
def test_json_that_does_not_fit_is_refused(warehouse: Warehouse, kind: str, value: Any) -> None:
    mode = {"ARRAY": "REPEATED", "REQUIRED": "REQUIRED"}.get(kind, "NULLABLE")
    fields = [SchemaField("d", "INT64")] if kind == "RECORD" else []
    field = SchemaField("c", kind if mode == "NULLABLE" else "STRING", mode, fields=fields)
    good = {"REQUIRED": "x", "ARRAY": []}.get(kind)
    content = json.dumps({"c": good}) + "\n\n" + json.dumps({"c": value} if value is not None else {})
    with pytest.raises(GoogleAPICallError, match=r"row \[3\]|parsing error: .|Required field c"):
        load(warehouse, content.encode(), field)


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"other": 1}'])
def test_what_is_no_row_is_refused(warehouse: Warehouse, content: bytes) -> None:
    with pytest.raises(GoogleAPICallError, match=r"row \[1\]"):
        load(warehouse, content, SchemaField("c", "INT64"))


def parquet(**columns: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def test_a_parquet_file_gives_a_table_its_columns(warehouse: Warehouse) -> None:
    content = parquet(
        i=pa.array([1], pa.int32()),
        t=pa.array([MOMENT], pa.timestamp("us", tz="UTC")),
        spark=pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("ns")),
        local=pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("us")),
        n=pa.array([Decimal("1.50")], pa.decimal128(18, 2)),
        d=pa.array(["x"]).dictionary_encode(),
        s=[{"x": 1.5}],
    )
    load(warehouse, content, source_format="PARQUET")
    kinds = {field.name: field.field_type for field in warehouse.client.get_table("d.t").schema}
    assert kinds == {
        "i": "INTEGER", "t": "TIMESTAMP", "spark": "TIMESTAMP", "local": "TIMESTAMP", "n": "NUMERIC", "d": "STRING",
        "s": "RECORD",
    }  # fmt: skip
    assert len(warehouse.stored("d.t")) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (parquet(a=pa.array([Decimal(1)], pa.decimal128(38, 10))), "notImplemented"),
        (parquet(s=[{"inner": {"tags": ["x"]}}]), "notImplemented"),  # without list inference
        (parquet(a=[1])[:-8] + b"\xff\xff\xff\xffPAR1", "invalid"),
        (b"PAR1 no Parquet", "invalid"),
    ],
)
def test_a_parquet_file_that_cannot_be_read_is_refused(warehouse: Warehouse, content: bytes, reason: str) -> None:
    with pytest.raises(GoogleAPICallError) as refused:
        load(warehouse, content, source_format="PARQUET")
    assert refused.value.errors[0]["reason"] == reason


COLUMNS = [
    SchemaField(c.name, c.type, str(c.mode), fields=[SchemaField(f.name, f.type) for f in c.fields])
    for c in TABLE.columns
]


@pytest.mark.parametrize("path", sorted(STORED.glob("*.parquet")), ids=lambda path: path.stem)
def test_a_file_of_any_writer_is_loaded_by_its_own_schema(warehouse: Warehouse, path: Path) -> None:
    """Whatever Arrow schema its writer has added."""
    lists = ParquetOptions()
    lists.enable_list_inference = True
    load(warehouse, path.read_bytes(), *COLUMNS, source_format="PARQUET", parquet_options=lists)
    rows = [dict(row) for row in warehouse.client.list_rows(f"{PROJECT}.d.t")]
    arrays = {"marks", "tags"}  # BigQuery stores no array that is NULL, only an empty one
    stored = [{k: v or [] if k in arrays else v for k, v in row.items()} for row in expected(rows[0]["day"])]
    assert sorted(rows, key=lambda row: row["id"]) == stored


def job_body(**load: Any) -> dict[str, Any]:
    table = {"projectId": PROJECT, "datasetId": "d", "tableId": "t"}
    return {"configuration": {"load": {"destinationTable": table, "sourceUris": ["gs://b/o"], **load}}}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"configuratoin": {}}, "invalid"),
        (job_body(writeDispositoin="x"), "notImplemented"),
        (job_body(autodetect=[1]), "notImplemented"),
        ([], "invalid"),
        ({"configuration": []}, "invalid"),
        (job_body(autodetect=True), "notImplemented"),
        (job_body(sourceFormat="CSV"), "notImplemented"),
        (job_body(parquetOptions={"mapTargetType": "ARRAY_OF_STRUCT"}), "notImplemented"),
        (job_body(encoding="UTF-16LE"), "notImplemented"),
        ({"configuration": {"copy": {}, "reservation": "none"}}, "notImplemented"),
        ({"configuration": {"query": {"query": "SELECT 1", "useLegacySql": True}}}, "notImplemented"),
    ],
)
def test_request_fields_that_do_not_exist_or_have_no_effect_are_refused(
    shared: Warehouse, body: dict[str, Any], reason: str
) -> None:
    answer = shared.http.post(f"{URL}/jobs", json=body).json()
    error = answer["error"]["errors"][0] if "error" in answer else answer["status"]["errorResult"]
    assert error["reason"] == reason


@pytest.mark.parametrize("uri", ["gs://b*/name", "gs://b/*/*"])
def test_a_wildcard_in_the_buckets_name_and_a_second_one_are_refused(warehouse: Warehouse, uri: str) -> None:
    with pytest.raises(GoogleAPICallError, match="wildcard"):
        warehouse.client.load_table_from_uri(uri, "d.t", job_config=LoadJobConfig(source_format="PARQUET")).result()


def test_a_partition_is_no_destination_of_a_query(warehouse: Warehouse) -> None:
    reason, message = warehouse.refusal("SELECT 1 AS n", destination=f"{PROJECT}.d.t$20260131")
    assert (reason, "t$20260131" in message) == ("notImplemented", True)


def test_parameters_and_fields_that_ask_for_nothing_are_accepted(warehouse: Warehouse) -> None:
    warehouse.job("CREATE TABLE d.t (a INT64)")
    patch = f"{URL}/datasets/d/tables/t"
    body = {"etag": "x", "numRows": "3", "description": "rows"}  # fields that only answers have
    assert warehouse.http.patch(f"{patch}?autodetect_schema=False", json=body).json()["description"] == "rows"
    assert warehouse.http.patch(f"{patch}?autodetect_schema=true", json=body).status_code == 501
    assert warehouse.http.get(f"{URL}/datasets/d/tables?maxResult=1").status_code == 501
    assert warehouse.http.patch(f"{URL}/datasets/d", json={"maxTimeTravelHours": "48"}).status_code == 501
    assert warehouse.http.post(f"/upload{URL}/jobs?uploadType=resumable", json=job_body()).status_code == 501
    body = {"query": "SELECT 1", "useLegacySql": False, "formatOptions": {"timestampOutputFormat": "INT64"}}
    assert warehouse.http.post(f"{URL}/queries", json=body).status_code == 501
    assert "tables" in warehouse.http.get(f"{URL}/datasets/d/tables?maxResults=1&alt=json&fields=tables").json()


def test_simultaneous_requests_of_one_request_id_start_one_job(warehouse: Warehouse) -> None:
    body = {"query": "SELECT 1", "useLegacySql": False, "requestId": "asked-once"}

    def ask(_: int) -> str:
        return str(warehouse.http.post(f"{URL}/queries", json=body).json()["jobReference"]["jobId"])

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert len(list(warehouse.client.list_jobs())) == 1
    assert not list(warehouse.client.list_jobs(min_creation_time=datetime(2100, 1, 1, tzinfo=UTC)))


def test_a_job_ends_by_its_timeout_or_when_it_is_cancelled(warehouse: Warehouse) -> None:
    endless = "SELECT COUNTIF(a = b) FROM UNNEST(GENERATE_ARRAY(1, 1000000)) a, UNNEST(GENERATE_ARRAY(1, 1000000)) b"
    config = QueryJobConfig(job_timeout_ms=200)
    job = warehouse.client.query(endless, config, retry=None, job_retry=None)
    with pytest.raises(GoogleAPICallError, match="timed out"):
        job.result(retry=None)
    with warehouse.fault(match={"job_type": "load"}, effect="queue"):
        config = LoadJobConfig(source_format="NEWLINE_DELIMITED_JSON")
        load_job = warehouse.client.load_table_from_file(io.BytesIO(b"{}"), "d.t", size=2, job_config=config)
        load_job.cancel(retry=None)
    wait_for(lambda: warehouse.client.get_job(load_job.job_id).state == "DONE", "the job ends")
    assert warehouse.client.get_job(load_job.job_id).error_result["reason"] == "stopped"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A stand-in that has run some jobs."""
    found = Warehouse(tmp_path_factory.mktemp("stand_in"))
    found.client.create_dataset("d")
    found.job("CREATE TABLE d.s (v INT64); CREATE TABLE d.t (day DATE, v INT64) PARTITION BY day")
    found.job("INSERT d.t VALUES (DATE '2026-01-01', 1), (DATE '2026-01-02', 2)")
    found.job("UPDATE d.t SET v = 3 WHERE day = DATE '2026-01-01'")
    return found


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            f"SELECT statement_type, COUNT(*) FROM {JOBS} WHERE statement_type IN "
            "('INSERT', 'UPDATE', 'SCRIPT') GROUP BY statement_type ORDER BY statement_type",
            [("INSERT", 1), ("SCRIPT", 1), ("UPDATE", 1)],
        ),
        (f"SELECT destination_table.table_id FROM {JOBS} WHERE statement_type = 'UPDATE'", [("t",)]),
        (f"SELECT COUNTIF(state = 'RUNNING') FROM {JOBS}", [(1,)]),
    ],
)
def test_monitoring_queries(history: Warehouse, sql: str, expected: list[tuple[object, ...]]) -> None:
    assert history.rows(sql) == expected


def test_the_view_bills_its_minimum_and_is_of_the_querys_own_region(history: Warehouse) -> None:
    assert history.job(f"SELECT COUNT(*) FROM {JOBS}").total_bytes_billed == 10 << 20
    assert history.refusal("SELECT job_id FROM `region-eu`.INFORMATION_SCHEMA.JOBS")[0] == "notFound"
    assert "total_modified_partitions" in history.refusal(f"SELECT total_modified_partitions FROM {JOBS}")[1]
