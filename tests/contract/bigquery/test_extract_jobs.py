"""Extract jobs through google-cloud-bigquery. Rules of "Export table data"."""

from __future__ import annotations

import io
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from google.api_core import exceptions
from google.cloud import bigquery, storage

from tests.shared.stand_in_client import (
    PROJECT,
    TODAY,
    Control,
    days_ago,
    load,
    make_table,
    rows_of,
    snapshot,
    upload,
)


@pytest.fixture
def folder() -> str:
    return f"extract/{uuid.uuid4().hex}"


@pytest.fixture
def table(client: bigquery.Client, bucket: storage.Bucket, dataset: str, folder: str) -> str:
    make_table(client, f"{dataset}.t")
    load(
        client, upload(bucket, f"{folder}/in.parquet", snapshot([TODAY, days_ago(1)], 5)), f"{dataset}.t", "WRITE_EMPTY"
    )
    return f"{dataset}.t"


def extract(client: bigquery.Client, table: str, uri: str, **options: Any) -> Any:
    config = bigquery.ExtractJobConfig(**{"destination_format": "PARQUET", **options})
    job = client.extract_table(f"{PROJECT}.{table}", uri, job_config=config)
    job.result()
    return job


def file_of(bucket: storage.Bucket, name: str) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(bucket.blob(name).download_as_bytes()))


def test_table_becomes_one_file(client: bigquery.Client, bucket: storage.Bucket, table: str, folder: str) -> None:
    job = extract(client, table, f"gs://{bucket.name}/{folder}/out.parquet")
    assert job.destination_uri_file_counts == [1]
    assert job._properties["statistics"]["extract"]["inputBytes"] == str(4 * 24)
    rows = file_of(bucket, f"{folder}/out.parquet").read()
    assert sorted(rows.to_pylist(), key=str) == sorted(snapshot([TODAY, days_ago(1)], 5).to_pylist(), key=str)


def test_wildcard_stands_for_the_number_of_the_file(
    client: bigquery.Client, bucket: storage.Bucket, table: str, folder: str
) -> None:
    job = extract(client, table, f"gs://{bucket.name}/{folder}/part-*.parquet")
    assert job.destination_uri_file_counts == [1]
    assert file_of(bucket, f"{folder}/part-000000000000.parquet").metadata.num_rows == 4


def test_one_partition_is_extracted_by_its_decorator(
    client: bigquery.Client, bucket: storage.Bucket, table: str, folder: str
) -> None:
    uri = f"gs://{bucket.name}/{folder}/day.parquet"
    extract(client, f"{table}${TODAY:%Y%m%d}", uri)
    assert file_of(bucket, f"{folder}/day.parquet").read().column("day").unique().to_pylist() == [TODAY]
    extract(client, f"{table}$20200101", uri)
    empty = file_of(bucket, f"{folder}/day.parquet")
    assert (empty.metadata.num_rows, empty.schema_arrow.names) == (0, ["day", "id", "number"])


def test_types_are_those_of_the_parquet_export(
    client: bigquery.Client, bucket: storage.Bucket, dataset: str, folder: str
) -> None:
    """ "Export table data to Cloud Storage", Parquet export details."""
    client.query_and_wait(
        f"""
        CREATE TABLE {dataset}.types (k INT64 NOT NULL, d DATE, ts TIMESTAMP, dt DATETIME, n NUMERIC, b BYTES,
          nested STRUCT<a INT64, tags ARRAY<STRING>>, list ARRAY<STRUCT<x FLOAT64>>);
        INSERT {dataset}.types VALUES (1, DATE '2026-01-31', TIMESTAMP '2026-01-31 01:02:03.456789',
          DATETIME '2026-01-31 01:02:03', NUMERIC '1.5', b'abc', STRUCT(2 AS a, ['x', 'y'] AS tags),
          [STRUCT(0.5 AS x)]);
        """
    )
    extract(client, f"{dataset}.types", f"gs://{bucket.name}/{folder}/types.parquet")
    file = file_of(bucket, f"{folder}/types.parquet")
    schema = file.schema_arrow
    assert not schema.field("k").nullable
    assert schema.field("d").type == pa.date32()
    assert schema.field("ts").type == pa.timestamp("us")
    assert schema.field("dt").type == pa.timestamp("us")
    assert schema.field("n").type == pa.decimal128(38, 9)
    paths = [file.schema.column(position).path for position in range(len(file.schema))]
    assert {"nested.tags", "list.x"} <= set(paths)
    assert file.schema.column(paths.index("list.x")).physical_type == "FLOAT"
    assert file.read().to_pylist() == [
        {
            "k": 1,
            "d": date(2026, 1, 31),
            "ts": datetime(2026, 1, 31, 1, 2, 3, 456789),  # noqa: DTZ001  (of UTC, but the file does not say so)
            "dt": datetime(2026, 1, 31, 1, 2, 3),  # noqa: DTZ001  (a DATETIME has no zone)
            "n": Decimal("1.5"),
            "b": b"abc",
            "nested": {"a": 2, "tags": ["x", "y"]},
            "list": [{"x": 0.5}],
        }
    ]


@pytest.mark.parametrize("compression", ["NONE", "SNAPPY", "GZIP", "ZSTD"])
def test_compression_is_the_one_asked_for(
    client: bigquery.Client, bucket: storage.Bucket, table: str, folder: str, compression: str
) -> None:
    extract(client, table, f"gs://{bucket.name}/{folder}/c.parquet", compression=compression)
    found = file_of(bucket, f"{folder}/c.parquet").metadata.row_group(0).column(1).compression
    assert found == {"NONE": "UNCOMPRESSED"}.get(compression, compression)


def test_extracted_files_can_be_loaded_again(
    client: bigquery.Client, bucket: storage.Bucket, table: str, dataset: str, folder: str
) -> None:
    extract(client, table, f"gs://{bucket.name}/{folder}/again-*")
    make_table(client, f"{dataset}.again")
    load(client, f"gs://{bucket.name}/{folder}/again-*", f"{dataset}.again", "WRITE_EMPTY")
    differing = f"SELECT * FROM {table} EXCEPT DISTINCT SELECT * FROM {dataset}.again"
    assert rows_of(client, differing) == []


@pytest.mark.parametrize(
    ("options", "uri", "error", "message"),
    [
        ({"destination_format": "CSV"}, "x.csv", exceptions.MethodNotImplemented, "extract.destinationFormat CSV"),
        ({"compression": "DEFLATE"}, "x", exceptions.BadRequest, "extract.compression"),
        ({}, "a*b*", exceptions.BadRequest, "one wildcard"),
        ({"field_delimiter": ";"}, "x", exceptions.MethodNotImplemented, "fieldDelimiter"),
    ],
)
def test_what_is_not_carried_out_is_refused(
    client: bigquery.Client, bucket: storage.Bucket, table: str, options: dict[str, Any], uri: str, error: type,
    message: str,
) -> None:  # fmt: skip
    with pytest.raises(error, match=message):
        extract(client, table, f"gs://{bucket.name}/{uri}", **options)


def test_missing_table_and_bucket_are_not_found(client: bigquery.Client, table: str) -> None:
    with pytest.raises(exceptions.NotFound, match="Table"):
        extract(client, table + "_absent", "gs://landing/x")
    with pytest.raises(exceptions.NotFound, match="gs://no-such-bucket/x"):
        extract(client, table, "gs://no-such-bucket/x")


def test_bq_tool_request_is_understood(
    stand_in: str, client: bigquery.Client, bucket: storage.Bucket, table: str, folder: str
) -> None:
    """The body that `bq extract` sends."""
    dataset, name = table.split(".")
    body = {
        "jobReference": {"projectId": PROJECT, "jobId": f"bqjob_{uuid.uuid4().hex}"},
        "configuration": {
            "jobType": "EXTRACT",
            "extract": {
                "sourceTable": {"projectId": PROJECT, "datasetId": dataset, "tableId": name},
                "destinationUris": [f"gs://{bucket.name}/{folder}/bq.parquet"],
                "destinationFormat": "PARQUET",
                "printHeader": True,
            },
        },
    }
    url = f"http://{stand_in}/bigquery/v2/projects/{PROJECT}/jobs"
    reply = requests.post(url, json=body, timeout=30)
    reply.raise_for_status()
    assert client.get_job(reply.json()["jobReference"]["jobId"]).result().state == "DONE"
    assert file_of(bucket, f"{folder}/bq.parquet").metadata.num_rows == 4


def test_faults_stop_an_extract_job(client: bigquery.Client, table: str, control: Control) -> None:
    control.add_fault(match={"job_type": "extract"}, effect="error", message="No extract today")
    with pytest.raises(exceptions.GoogleAPICallError, match="No extract today"):
        extract(client, table, "gs://landing/x")
