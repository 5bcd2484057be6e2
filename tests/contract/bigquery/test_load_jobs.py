"""Load jobs from gs://: dispositions, partitions, manifests, wildcards and refusals."""

from __future__ import annotations

import io
import uuid
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage

from testkit.enum_files import enum_file
from tests.shared.stand_in_client import (
    PROJECT,
    SCHEMA,
    TODAY,
    days_ago,
    load,
    make_table,
    numbers_by_day,
    rows_of,
    snapshot,
    upload,
)

MANIFEST = {"file_set_spec_type": "FILE_SET_SPEC_TYPE_NEW_LINE_DELIMITED_MANIFEST"}


@pytest.fixture
def folder() -> str:
    return f"load/{uuid.uuid4().hex}"


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    make_table(client, f"{dataset}.t")
    return f"{dataset}.t"


def test_dispositions_replace_or_append(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, table: str
) -> None:
    first = upload(bucket, f"{folder}/1.parquet", snapshot([days_ago(1), TODAY], 1))
    second = upload(bucket, f"{folder}/2.parquet", snapshot([TODAY], 2))
    job = load(client, first, table, "WRITE_EMPTY")
    assert (job.output_rows, job.input_files, job.state) == (4, 1, "DONE")
    with pytest.raises(exceptions.Conflict, match="Already Exists: Table"):
        load(client, second, table, "WRITE_EMPTY")
    load(client, second, table, "WRITE_APPEND")
    assert numbers_by_day(client, table) == {days_ago(1): {1}, TODAY: {1, 2}}
    load(client, second, table, "WRITE_TRUNCATE_DATA")
    assert numbers_by_day(client, table) == {TODAY: {2}}


def test_an_append_adds_columns_only_where_it_is_allowed_to(client: bigquery.Client, dataset: str) -> None:
    """Source: REST reference of jobs, JobConfigurationLoad.schemaUpdateOptions."""
    name = f"{dataset}.growing"
    client.query_and_wait(f"CREATE TABLE {name} (a INT64, s ARRAY<STRUCT<x INT64>>)")
    client.query_and_wait(f"INSERT INTO {name} VALUES (1, [STRUCT(10 AS x)])")
    nested = {"name": "s", "type": "RECORD", "mode": "REPEATED"}
    nested["fields"] = [{"name": "x", "type": "INTEGER"}, {"name": "y", "type": "STRING"}]
    schema = [{"name": "a", "type": "INTEGER"}, nested, {"name": "b", "type": "STRING"}]
    config = bigquery.LoadJobConfig(schema=schema, write_disposition="WRITE_APPEND")
    rows = [{"a": 2, "b": "new", "s": [{"x": 20, "y": "deep"}]}]
    with pytest.raises(exceptions.BadRequest, match="Cannot add fields"):
        client.load_table_from_json(rows, name, job_config=config).result()
    config.schema_update_options = ["ALLOW_FIELD_ADDITION"]
    client.load_table_from_json(rows, name, job_config=config).result()
    found = client.query_and_wait(f"SELECT a, b, s[0].x AS x, s[0].y AS y FROM {name} ORDER BY a")
    assert [tuple(r.values()) for r in found] == [(1, None, 10, None), (2, "new", 20, "deep")]
    required = [*schema, {"name": "c", "type": "STRING", "mode": "REQUIRED"}]
    config.schema = [bigquery.SchemaField.from_api_repr(field) for field in required]
    with pytest.raises(exceptions.BadRequest, match="Cannot add required fields"):
        client.load_table_from_json([{"a": 3, "c": "x"}], name, job_config=config).result()
    config.schema = schema
    for target, disposition in ((name, "WRITE_TRUNCATE"), (f"{name}$20260131", "WRITE_EMPTY")):
        config.write_disposition = disposition
        with pytest.raises(exceptions.BadRequest, match="WRITE_APPEND"):
            client.load_table_from_json(rows, target, job_config=config).result()


def test_truncate_replaces_schema_and_description_but_truncate_data_keeps_them(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, table: str
) -> None:
    rows = snapshot([TODAY], 1)
    uri = upload(bucket, f"{folder}/a.parquet", rows)
    wider = upload(bucket, f"{folder}/b.parquet", rows.append_column("more", pa.array([1, 2])))
    found = client.get_table(table)
    found.description = "rows"
    client.update_table(found, ["description"])
    load(client, uri, table, "WRITE_TRUNCATE_DATA")
    assert client.get_table(table).description == "rows"
    with pytest.raises(exceptions.BadRequest, match=r"Provided Schema does not match Table .* \(field: more\)"):
        load(client, wider, table, "WRITE_TRUNCATE_DATA")
    load(client, wider, table, "WRITE_TRUNCATE")
    replaced = client.get_table(table)
    assert replaced.description is None
    assert [field.name for field in replaced.schema] == ["day", "id", "number", "more"]
    assert replaced.time_partitioning.expiration_ms == 730 * 86_400_000
    assert replaced.clustering_fields == ["id"]


def test_partition_decorator_replaces_one_day(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, table: str
) -> None:
    load(client, upload(bucket, f"{folder}/1.parquet", snapshot([days_ago(1), TODAY], 1)), table, "WRITE_TRUNCATE")
    uri = upload(bucket, f"{folder}/2.parquet", snapshot([TODAY], 2, rows_per_day=3))
    partition = f"{table}${TODAY:%Y%m%d}"
    load(client, uri, partition, "WRITE_TRUNCATE_DATA")
    assert numbers_by_day(client, table) == {days_ago(1): {1}, TODAY: {2}}
    assert client.get_table(partition).num_rows == 3
    other_day = upload(bucket, f"{folder}/3.parquet", snapshot([days_ago(1)], 3))
    with pytest.raises(exceptions.BadRequest, match="Some rows belong to different partitions"):
        load(client, other_day, partition, "WRITE_TRUNCATE")
    assert numbers_by_day(client, table) == {days_ago(1): {1}, TODAY: {2}}
    client.delete_table(partition)
    assert numbers_by_day(client, table) == {days_ago(1): {1}}


def test_lists_wildcards_and_manifests_name_the_files(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, table: str
) -> None:
    uris = [upload(bucket, f"{folder}/day={n}/x.parquet", snapshot([days_ago(n)], n)) for n in range(3)]
    upload(bucket, f"{folder}/day=9/x.orc", snapshot([TODAY], 9))
    job = load(client, f"gs://{bucket.name}/{folder}/*.parquet", table, "WRITE_TRUNCATE")
    assert (job.input_files, job.output_rows) == (3, 6)
    job = load(client, uris[:2], table, "WRITE_TRUNCATE")
    assert job.output_rows == 4
    manifest = bucket.blob(f"{folder}/manifest.txt")
    manifest.upload_from_string("\n".join(uris))
    address = f"gs://{bucket.name}/{manifest.name}"
    config = bigquery.LoadJobConfig(source_format="PARQUET", write_disposition="WRITE_TRUNCATE")
    config._properties["load"]["fileSetSpecType"] = MANIFEST["file_set_spec_type"]
    job = client.load_table_from_uri(address, table, job_config=config).result()
    assert job.output_rows == 6
    manifest.upload_from_string(f"gs://{bucket.name}/{folder}/*.parquet")
    with pytest.raises(exceptions.BadRequest, match="wildcard"):
        client.load_table_from_uri(address, table, job_config=config).result()


def test_manifest_names_files_of_its_own_bucket_only(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, table: str
) -> None:
    """Source: load-statements, file_set_spec_type: all files are in the bucket of the manifest."""
    bucket.blob(f"{folder}/manifest.txt").upload_from_string("gs://other/a.parquet\n")
    config = bigquery.LoadJobConfig(source_format="PARQUET")
    config._properties["load"]["fileSetSpecType"] = MANIFEST["file_set_spec_type"]
    with pytest.raises(exceptions.BadRequest, match="expected files of its own bucket"):
        client.load_table_from_uri(f"gs://{bucket.name}/{folder}/manifest.txt", table, job_config=config).result()


@pytest.mark.parametrize(("content", "message"), [(b"\n", "names no file"), (b"PAR1\xff", "is not UTF-8 text")])
def test_a_manifest_without_names_is_refused(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, table: str, content: bytes, message: str
) -> None:
    bucket.blob(f"{folder}/manifest.txt").upload_from_string(content)
    config = bigquery.LoadJobConfig(source_format="PARQUET")
    config._properties["load"]["fileSetSpecType"] = MANIFEST["file_set_spec_type"]
    with pytest.raises(exceptions.BadRequest, match=message):
        client.load_table_from_uri(f"gs://{bucket.name}/{folder}/manifest.txt", table, job_config=config).result()


def test_a_timestamp_becomes_a_datetime_only_by_the_jobs_schema(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, dataset: str
) -> None:
    """Source: loading-data-cloud-storage-parquet, type conversions: INT64 TIMESTAMP is a TIMESTAMP."""
    moment = datetime(2026, 1, 31, 1, 2, 3)  # noqa: DTZ001  (a DATETIME has no zone)
    uri = upload(bucket, f"{folder}/a.parquet", pa.table({"moment": pa.array([moment], pa.timestamp("us"))}))
    client.query_and_wait(f"CREATE TABLE {dataset}.times (moment DATETIME)")
    config = bigquery.LoadJobConfig(source_format="PARQUET")
    with pytest.raises(exceptions.BadRequest, match="has changed type from DATETIME to TIMESTAMP"):
        client.load_table_from_uri(uri, f"{dataset}.times", job_config=config).result()
    config.schema = [bigquery.SchemaField("moment", "DATETIME")]
    client.load_table_from_uri(uri, f"{dataset}.times", job_config=config).result()
    assert rows_of(client, f"SELECT moment FROM {dataset}.times") == [(moment,)]


def test_both_kinds_of_time_in_one_struct_are_told_apart_by_the_jobs_schema(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, dataset: str
) -> None:
    """Exported files have both as not adjusted to UTC (Export table data, Parquet export details)."""
    moment = datetime(2026, 1, 31, 1, 2, 3)  # noqa: DTZ001  (a DATETIME has no zone)
    kind = pa.struct([("at", pa.timestamp("us")), ("local_at", pa.timestamp("us"))])
    rows = pa.table({"times": pa.array([{"at": moment, "local_at": moment}], kind)})
    fields = [bigquery.SchemaField("at", "TIMESTAMP"), bigquery.SchemaField("local_at", "DATETIME")]
    schema = [bigquery.SchemaField("times", "RECORD", fields=fields)]
    config = bigquery.LoadJobConfig(source_format="PARQUET", schema=schema)
    uri = upload(bucket, f"{folder}/a.parquet", rows)
    client.load_table_from_uri(uri, f"{dataset}.times", job_config=config).result()
    ((times,),) = rows_of(client, f"SELECT times FROM {dataset}.times")
    assert times == {"at": moment.replace(tzinfo=UTC), "local_at": moment}


def test_an_enum_is_text_only_with_the_option(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, dataset: str
) -> None:
    """Source: loading-data-cloud-storage-parquet, enum logical type; rest/v2/tables, ParquetOptions.enumAsString."""
    bucket.blob(f"{folder}/a.parquet").upload_from_string(enum_file(pa.table({"kind": ["red", "blue"]}), "kind"))
    uri = f"gs://{bucket.name}/{folder}/a.parquet"
    for as_string, expected in ((False, "BYTES"), (True, "STRING")):
        config = bigquery.LoadJobConfig(source_format="PARQUET")
        config._properties["load"]["parquetOptions"] = {"enumAsString": as_string}
        client.load_table_from_uri(uri, f"{dataset}.{expected}", job_config=config).result()
        assert client.get_table(f"{dataset}.{expected}").schema[0].field_type == expected
    assert rows_of(client, f"SELECT kind FROM {dataset}.STRING ORDER BY kind") == [("blue",), ("red",)]


@pytest.mark.parametrize("name", ["absent.parquet", "absent/*.parquet"])
def test_missing_files_are_not_found(client: bigquery.Client, bucket: storage.Bucket, table: str, name: str) -> None:
    with pytest.raises(exceptions.NotFound, match=r"(?i)Not found: Uri"):
        load(client, f"gs://{bucket.name}/{name}", table, "WRITE_TRUNCATE")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("number", pa.array(["1", "2"]), "Field number has changed type from INTEGER to STRING"),
        ("number", pa.array([1.0, 2.0]), "Field number has changed type from INTEGER to FLOAT"),
        ("day", pa.array([20000, 20000], pa.int32()), "Field day has changed type from DATE to INTEGER"),
    ],
    ids=["text", "float", "date without its annotation"],
)
def test_changed_column_types_are_refused(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, table: str, column: str, values: Any, message: str
) -> None:
    rows = snapshot([TODAY], 1)
    position = rows.column_names.index(column)
    uri = upload(bucket, f"{folder}/a.parquet", rows.set_column(position, column, values))
    with pytest.raises(exceptions.BadRequest, match=f"Provided Schema does not match Table .*{message}"):
        load(client, uri, table, "WRITE_APPEND")


def test_required_columns_must_be_there_and_filled(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, dataset: str
) -> None:
    required = [bigquery.SchemaField("id", "INT64", mode="REQUIRED"), bigquery.SchemaField("note", "STRING")]
    client.create_table(bigquery.Table(f"{PROJECT}.{dataset}.r", schema=required))
    without = upload(bucket, f"{folder}/a.parquet", pa.table({"note": ["x"]}))
    with pytest.raises(exceptions.BadRequest, match="Field id is missing in new schema"):
        load(client, without, f"{dataset}.r", "WRITE_APPEND")
    null = upload(bucket, f"{folder}/b.parquet", pa.table({"id": pa.array([None], pa.int64())}))
    with pytest.raises(exceptions.BadRequest, match="Field id has changed mode from REQUIRED to NULLABLE"):
        load(client, null, f"{dataset}.r", "WRITE_APPEND")
    with pytest.raises(exceptions.BadRequest, match="Required field id cannot be null"):
        load(client, null, f"{dataset}.r", "WRITE_APPEND", schema=required)


def test_schema_comes_from_the_alphabetically_last_file(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, dataset: str
) -> None:
    upload(bucket, f"{folder}/a.parquet", pa.table({"n": [1]}))
    upload(bucket, f"{folder}/b.parquet", pa.table({"n": [1], "m": ["x"]}))
    load(client, f"gs://{bucket.name}/{folder}/*", f"{dataset}.new", "WRITE_EMPTY")
    assert [field.name for field in client.get_table(f"{dataset}.new").schema] == ["n", "m"]


def test_new_table_gets_layout_labels_and_description_of_the_job(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, dataset: str
) -> None:
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 1))
    load(
        client,
        uri,
        f"{dataset}.new",
        "WRITE_EMPTY",
        time_partitioning=bigquery.TimePartitioning(field="day", expiration_ms=864_000_000),
        clustering_fields=["id"],
        destination_table_description="rows",
    )
    table = client.get_table(f"{dataset}.new")
    assert (table.time_partitioning.expiration_ms, table.clustering_fields) == (864_000_000, ["id"])
    assert table.description == "rows"
    with pytest.raises(exceptions.BadRequest, match="Incompatible table clustering specification"):
        load(client, uri, f"{dataset}.new", "WRITE_APPEND", clustering_fields=["number"])


def test_rows_without_a_day_are_kept_apart_and_old_days_vanish(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, table: str
) -> None:
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([None, days_ago(731), TODAY], 1))
    load(client, uri, table, "WRITE_TRUNCATE")
    view = table.split(".")[0] + ".INFORMATION_SCHEMA.PARTITIONS"
    found = rows_of(client, f"SELECT partition_id, total_rows FROM {view} ORDER BY partition_id")
    assert found == [(f"{TODAY:%Y%m%d}", 2), ("__NULL__", 2)]
    assert client.get_table(table).num_rows == 4


def test_days_before_1960_and_after_2159_have_no_partition(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, dataset: str
) -> None:
    """Source: Introduction to partitioned tables, time-unit column partitioning."""
    make_table(client, f"{dataset}.t", None)
    days = [date(1, 1, 1), date(1959, 12, 31), date(1960, 1, 1), date(2159, 12, 31), date(2160, 1, 1)]
    load(client, upload(bucket, f"{folder}/a.parquet", snapshot(days, 1)), f"{dataset}.t", "WRITE_TRUNCATE_DATA")
    found = rows_of(client, f"SELECT partition_id, total_rows FROM {dataset}.INFORMATION_SCHEMA.PARTITIONS")
    assert sorted(found) == [("19600101", 2), ("21591231", 2), ("__UNPARTITIONED__", 6)]


def test_nested_parquet_needs_list_inference(
    client: bigquery.Client, bucket: storage.Bucket, folder: str, dataset: str
) -> None:
    uri = upload(bucket, f"{folder}/a.parquet", pa.table({"tags": [["a", "b"], []], "pair": [{"x": 1}, None]}))
    with pytest.raises(exceptions.MethodNotImplemented, match="enableListInference"):
        load(client, uri, f"{dataset}.nested", "WRITE_EMPTY")
    options = bigquery.ParquetOptions()
    options.enable_list_inference = True
    load(client, uri, f"{dataset}.nested", "WRITE_EMPTY", parquet_options=options)
    rows = [tuple(row.values()) for row in client.list_rows(f"{dataset}.nested")]
    assert rows == [(["a", "b"], {"x": 1}), ([], None)]


def test_failed_load_changes_nothing(client: bigquery.Client, bucket: storage.Bucket, folder: str, table: str) -> None:
    load(client, upload(bucket, f"{folder}/1/a.parquet", snapshot([TODAY], 1)), table, "WRITE_TRUNCATE")
    before = client.get_table(table)
    bucket.blob(f"{folder}/2/a.parquet").upload_from_string(b"not Parquet")
    upload(bucket, f"{folder}/2/b.parquet", snapshot([TODAY], 2))
    with pytest.raises(exceptions.BadRequest, match="not in Parquet format"):
        load(client, f"gs://{bucket.name}/{folder}/2/*", table, "WRITE_TRUNCATE")
    assert client.get_table(table).etag == before.etag


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"autodetect": True}, "autodetect"),
        ({"schema_update_options": ["ALLOW_FIELD_RELAXATION"]}, "schemaUpdateOptions"),
        ({"max_bad_records": 3}, "maxBadRecords"),
        ({"hive_partitioning": bigquery.HivePartitioningOptions.from_api_repr({"mode": "AUTO"})}, "hivePartitioning"),
    ],
)
def test_load_options_that_are_not_carried_out_are_refused_by_name(
    client: bigquery.Client, table: str, options: dict[str, Any], name: str
) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match=name):
        load(client, "gs://landing/x", table, "WRITE_APPEND", **options)


def test_too_many_uris_are_refused(client: bigquery.Client, table: str) -> None:
    with pytest.raises(exceptions.BadRequest, match=r"found \[10001\], allowed \[10000\]"):
        load(client, [f"gs://landing/{number}" for number in range(10_001)], table, "WRITE_APPEND")


def test_uploaded_parquet_file_is_loaded(client: bigquery.Client, table: str) -> None:

    import pyarrow.parquet as pq

    content = io.BytesIO()
    pq.write_table(snapshot([TODAY], 5), content)
    content.seek(0)
    config = bigquery.LoadJobConfig(source_format="PARQUET", schema=SCHEMA)
    client.load_table_from_file(content, table, job_config=config).result()
    assert numbers_by_day(client, table) == {TODAY: {5}}


def test_an_upload_without_a_job_as_json_is_refused(client: bigquery.Client) -> None:
    body = b"--x\r\n\r\n{\r\n--x\r\n\r\nrows\r\n--x--"
    url = f"{client._connection.API_BASE_URL}/upload/bigquery/v2/projects/{PROJECT}/jobs?uploadType=multipart"
    response = client._http.post(url, body, headers={"Content-Type": "multipart/related; boundary=x"})
    assert (response.status_code, response.json()["error"]["errors"][0]["reason"]) == (400, "invalid")
