"""The default stream of the Storage Write API, through google-cloud-bigquery-storage.

Pages of BigQuery's documentation: Supported protocol buffer and Arrow data types; Storage RPC reference, AppendRows;
Quotas and limits.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient, types
from google.cloud.bigquery_storage_v1.writer import AppendRowsStream

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
from tests.shared.write_api_client import (
    append,
    append_request,
    days_since_epoch,
    default_stream,
    message_class,
    storage_error,
)

ROW = message_class({"day": "int32", "id": "int64", "number": "int64"})
INVALID_ARGUMENT = 3


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    make_table(client, f"{dataset}.t")
    return f"{dataset}.t"


def row(number: int, day: date = TODAY) -> Any:
    return ROW(day=days_since_epoch(day), id=number, number=number)


def ids(client: bigquery.Client, table: str) -> list[int]:
    return [found for (found,) in rows_of(client, f"SELECT id FROM {table} ORDER BY id")]


def test_rows_of_the_default_stream_are_queried_at_once_and_cloned_after_some_minutes(
    client: bigquery.Client, writer: BigQueryWriteClient, control: Control, table: str
) -> None:
    template = append_request(default_stream(table), ROW, [])
    stream = AppendRowsStream(writer, template)
    results = [stream.send(append_request(default_stream(table), None, [row(n)])).result(30) for n in (1, 2)]
    stream.close()
    assert ["append_result" in result for result in results] == [True, True]
    assert [result.append_result.offset for result in results] == [None, None]
    assert ids(client, table) == [1, 2]
    buffer = client.get_table(table).streaming_buffer
    assert (buffer.estimated_rows, buffer.estimated_bytes) == (2, 48)
    client.query(f"CREATE TABLE {table}_early CLONE {table}").result()
    assert list(client.list_rows(table)) == []
    control.advance(minutes=5)
    assert client.get_table(table).streaming_buffer is None
    client.query(f"CREATE TABLE {table}_late CLONE {table}").result()
    assert (ids(client, f"{table}_early"), ids(client, f"{table}_late")) == ([], [1, 2])
    assert len(list(client.list_rows(table))) == 2


def test_each_type_is_read_as_the_list_of_supported_types_says(
    client: bigquery.Client, writer: BigQueryWriteClient, dataset: str
) -> None:
    client.query(
        f"CREATE TABLE {dataset}.t (b BOOL, y BYTES, d DATE, d2 DATE, t TIME, t2 TIME, dt DATETIME, dt2 DATETIME, "
        "f FLOAT64, i INT64, n NUMERIC, n2 NUMERIC, s STRING, ts TIMESTAMP, ts2 TIMESTAMP, w INT64, "
        "r ARRAY<STRING>, st STRUCT<a INT64, b STRING>, missing STRING)"
    ).result()
    kind = message_class(
        {
            "b": "bool", "y": "bytes", "d": "int32", "d2": "string", "t": "string", "t2": "int64", "dt": "string",
            "dt2": "int64", "f": "double", "I": "int64", "n": "string", "n2": "bytes", "s": "string", "ts": "int64",
            "ts2": "google.protobuf.Timestamp", "w": "google.protobuf.Int64Value", "r": "repeated string",
            "st": {"a": "int64", "b": "string"},
        }
    )  # fmt: skip
    noon = datetime(2026, 1, 2, 12, 30, 15, 250, tzinfo=UTC)
    packed_time = (((12 << 6 | 30) << 6 | 15) << 20) | 250
    filled = kind(
        b=True, y=b"\x00\xff", d=20_455, d2="2026-01-02", t="12:30:15.000250", t2=packed_time,
        dt="2026-01-02 12:30:15.000250", dt2=((2026 << 4 | 1) << 5 | 2) << 37 | packed_time, f=0.5, I=-7,
        n="-1.5", n2=(-1_500_000_000).to_bytes(4, "little", signed=True), s="ü", ts=int(noon.timestamp()) * 10**6 + 250,
        r=["a", "b"], st={"a": 1},
    )  # fmt: skip
    filled.ts2.FromDatetime(noon)
    filled.w.value = 0
    (response,) = append(writer, append_request(default_stream(f"{dataset}.t"), kind, [filled, kind()]))
    assert not response.error.message
    day, clock, civil = date(2026, 1, 2), time(12, 30, 15, 250), noon.replace(tzinfo=None)
    number = Decimal("-1.5")
    assert rows_of(client, f"SELECT * FROM {dataset}.t ORDER BY i DESC") == [
        (
            True, b"\x00\xff", day, day, clock, clock, civil, civil, 0.5, -7, number, number, "ü", noon, noon, 0,
            ["a", "b"], {"a": 1, "b": None}, None,
        ),
        (*[None] * 16, [], None, None),
    ]  # fmt: skip


def test_one_wrong_row_keeps_all_rows_of_its_request_out(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    wrong = [row(1), ROW(day=3_000_000), row(2, days_ago(3700)), row(3)]
    failed, good = append(
        writer, append_request(default_stream(table), ROW, wrong), append_request(default_stream(table), None, [row(4)])
    )
    fields_error = types.RowError.RowErrorCode.FIELDS_ERROR
    assert [(error.index, error.code) for error in failed.row_errors] == [(1, fields_error), (2, fields_error)]
    assert (failed.error.code, "append_result" in good) == (INVALID_ARGUMENT, True)
    assert ids(client, table) == [4]


def test_streamed_days_are_between_ten_years_ago_and_one_year_ahead(
    writer: BigQueryWriteClient, client: bigquery.Client, table: str
) -> None:
    rows = [row(1, days_ago(3700)), row(2, days_ago(3600)), row(3, days_ago(-360)), row(4, days_ago(-370))]
    (failed,) = append(writer, append_request(default_stream(table), ROW, rows))
    assert [error.index for error in failed.row_errors] == [0, 3]
    assert ids(client, table) == []


def test_a_field_that_the_table_lacks_is_refused(writer: BigQueryWriteClient, table: str) -> None:
    kind = message_class({"id": "int64", "other": "string"})
    (failed,) = append(writer, append_request(default_stream(table), kind, [kind(id=1)]))
    found = storage_error(failed.error)
    assert (found.code, found.entity) == (
        types.StorageError.StorageErrorCode.SCHEMA_MISMATCH_EXTRA_FIELDS,
        default_stream(table),
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": "uint64"}, r"Proto field id has type \[uint64\], which cannot be converted to \[INT64\]"),
        ({"id": "repeated int64"}, r"Proto field id is \[repeated\], but the column is \[NULLABLE\]"),
        ({"number": {"a": "int64"}}, "Proto field number has type"),
    ],
)
def test_a_field_that_does_not_fit_its_column_is_refused(
    writer: BigQueryWriteClient, table: str, fields: dict[str, Any], message: str
) -> None:
    kind = message_class(fields)
    (failed,) = append(writer, append_request(default_stream(table), kind, [kind()]))
    assert failed.error.code == INVALID_ARGUMENT
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(failed.error.message)


def test_the_first_request_of_a_connection_needs_a_table_and_a_schema(
    writer: BigQueryWriteClient, table: str, dataset: str
) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="names no write_stream"):
        append(writer, append_request("", ROW, [row(1)]))
    with pytest.raises(exceptions.InvalidArgument, match="has no writer_schema"):
        append(writer, append_request(default_stream(table), None, [row(1)]))
    kind = message_class({"id": "google.protobuf.Int64Value"})
    request = append_request(default_stream(table), kind, [kind()])
    request.proto_rows.writer_schema.proto_descriptor.field[0].type_name = ".other.Message"
    with pytest.raises(exceptions.InvalidArgument, match="Invalid proto schema"):
        append(writer, request)
    request.proto_rows.writer_schema.proto_descriptor.Clear()
    with pytest.raises(exceptions.InvalidArgument, match="Invalid proto schema"):
        append(writer, request)
    with pytest.raises(exceptions.NotFound, match="Not found: Table") as failed:
        append(writer, append_request(default_stream(f"{dataset}.none"), ROW, [row(1)]))
    assert storage_error(failed.value).code == types.StorageError.StorageErrorCode.TABLE_NOT_FOUND


def test_a_connection_that_writes_to_two_tables_names_the_stream_in_every_request(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str, dataset: str
) -> None:
    make_table(client, f"{dataset}.other")
    one, other = default_stream(table), default_stream(f"{dataset}.other")
    responses = append(
        writer,
        append_request(one, ROW, [row(1)]),
        append_request("", None, [row(2)]),
        append_request(other, ROW, [row(3)]),
        append_request("", None, [row(4)]),
        append_request(one, None, [row(5)]),
    )
    assert ["append_result" in response for response in responses] == [True, True, True, False, True]
    assert (ids(client, table), ids(client, f"{dataset}.other")) == ([1, 2, 5], [3])


def test_requests_of_twenty_megabytes_with_offsets_or_without_rows_are_refused(
    client: bigquery.Client, writer: BigQueryWriteClient, dataset: str
) -> None:
    client.query(f"CREATE TABLE {dataset}.t (s STRING)").result()
    kind, stream = message_class({"s": "string"}), default_stream(f"{dataset}.t")
    unspecified = {"s": types.AppendRowsRequest.MissingValueInterpretation.MISSING_VALUE_INTERPRETATION_UNSPECIFIED}
    responses = append(
        writer,
        append_request(stream, kind, [kind(s="x" * 20_000_000)]),
        append_request(stream, None, [kind(s="a")], offset=0),
        append_request(stream, None, []),
        append_request(stream, None, [kind(s="a")], missing_value_interpretations=unspecified),
        append_request(stream, None, [kind(s="x" * 19_000_000)]),
    )
    assert [response.error.code for response in responses] == [INVALID_ARGUMENT] * 4 + [0]


def test_new_columns_are_reported_to_an_open_connection(
    client: bigquery.Client, writer: BigQueryWriteClient, dataset: str
) -> None:
    client.query(f"CREATE TABLE {dataset}.t (a INT64)").result()
    kind, stream = message_class({"a": "int64"}), default_stream(f"{dataset}.t")

    first_answer = threading.Event()

    def requests() -> Iterator[types.AppendRowsRequest]:
        yield append_request(stream, kind, [kind(a=1)])
        assert first_answer.wait(30)
        client.query(f"CREATE OR REPLACE TABLE {dataset}.t (a INT64, b STRING)").result()
        yield append_request(stream, None, [kind(a=2)])
        yield append_request(stream, None, [kind(a=3)])

    schemas = []
    for response in writer.append_rows(requests()):
        first_answer.set()
        schemas.append([field.name for field in response.updated_schema.fields])
    assert schemas == [[], ["a", "b"], []]
    assert rows_of(client, f"SELECT * FROM {dataset}.t ORDER BY a") == [(2, None), (3, None)]


def test_a_replaced_partition_keeps_the_buffer(
    client: bigquery.Client, writer: BigQueryWriteClient, bucket: storage.Bucket, table: str
) -> None:
    append(writer, append_request(default_stream(table), ROW, [row(7)]))
    uri = upload(bucket, f"{table}.parquet", snapshot([TODAY], 1))
    load(client, uri, f"{table}${TODAY:%Y%m%d}", "WRITE_TRUNCATE")
    assert ids(client, table) == [0, 1, 7]
    load(client, uri, table, "WRITE_TRUNCATE_DATA")
    assert ids(client, table) == [0, 1]
    assert client.get_table(table).streaming_buffer is None


def test_an_extract_job_leaves_out_the_buffer(
    client: bigquery.Client, writer: BigQueryWriteClient, bucket: storage.Bucket, table: str
) -> None:
    append(writer, append_request(default_stream(table), ROW, [row(1)]))
    config = bigquery.ExtractJobConfig(destination_format="PARQUET")
    client.extract_table(f"{PROJECT}.{table}", f"gs://{bucket.name}/{table}/out.parquet", job_config=config).result()
    content = io.BytesIO(bucket.blob(f"{table}/out.parquet").download_as_bytes())
    assert pq.ParquetFile(content).metadata.num_rows == 0


def test_faults_end_a_connection_before_or_after_the_rows_are_written(
    client: bigquery.Client, writer: BigQueryWriteClient, control: Control, table: str
) -> None:
    requests = [append_request(default_stream(table), ROW, [row(number)]) for number in (1, 2)]
    match = {"method": "POST", "path": "BigQueryWrite/AppendRows"}
    control.add_fault(match=match, effect="error", status=409, message="idle for too long")
    with pytest.raises(exceptions.Aborted, match="idle for too long"):
        append(writer, *requests)
    assert ids(client, table) == []
    control.add_fault(match=match, effect="lost_reply", nth=2)
    with pytest.raises(exceptions.ServiceUnavailable):
        append(writer, *requests)
    assert ids(client, table) == [1, 2]
    control.add_fault(match=match, effect="quota")
    with pytest.raises(exceptions.ResourceExhausted):
        append(writer, *requests)
    assert len(append(writer, *requests)) == 2


def test_streaming_is_no_update_of_the_table(client: bigquery.Client, writer: BigQueryWriteClient, table: str) -> None:
    requests = [append_request(default_stream(table), ROW, [row(n)]) for n in range(60)]
    assert all("append_result" in response for response in append(writer, *requests))
    client.query(f"CREATE TABLE {table}_c CLONE {table}").result()


def test_streams_other_than_the_default_one_are_refused(writer: BigQueryWriteClient, table: str) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match="not a default stream"):
        append(writer, append_request(default_stream(table).replace("_default", "other"), ROW, [row(1)]))
    with pytest.raises(exceptions.MethodNotImplemented):
        writer.create_write_stream(parent=default_stream(table).partition("/streams")[0], write_stream={})
