"""Queries over files of the object store by `tableDefinitions`.

Rules of "Query Cloud Storage data in external tables", "Loading Parquet data" and ExternalDataConfiguration of jobs.
"""

from __future__ import annotations

import uuid
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage

from tests.shared.stand_in_client import SCHEMA, TODAY, days_ago, make_table, rows_of, snapshot, upload

MEGABYTE = 1 << 20


@pytest.fixture
def folder() -> str:
    return f"external/{uuid.uuid4().hex}"


def defined(uris: str | list[str], **options: Any) -> bigquery.ExternalConfig:
    config = bigquery.ExternalConfig("PARQUET")
    config.source_uris = [uris] if isinstance(uris, str) else uris
    for name, value in options.items():
        setattr(config, name, value)
    return config


def reading(external: bigquery.ExternalConfig, **options: Any) -> bigquery.QueryJobConfig:
    return bigquery.QueryJobConfig(table_definitions={"delivery": external}, **options)


def test_rows_of_files_are_read_with_their_uri(client: bigquery.Client, bucket: storage.Bucket, folder: str) -> None:
    """Source: "Query the _FILE_NAME pseudo-column"."""
    uris = [upload(bucket, f"{folder}/day={day}/a.parquet", snapshot([days_ago(day)], day)) for day in range(3)]
    config = reading(defined(f"gs://{bucket.name}/{folder}/*"))
    assert rows_of(client, "SELECT COUNT(*) FROM delivery", job_config=config) == [(6,)]
    found = rows_of(
        client, "SELECT DISTINCT number, _FILE_NAME AS file FROM delivery AS d ORDER BY number", job_config=config
    )
    assert found == [(day, uris[day]) for day in range(3)]
    assert rows_of(client, "SELECT * FROM delivery WHERE number = 0 ORDER BY id", job_config=config) == [
        (TODAY, 0, 0),
        (TODAY, 1, 0),
    ]


def test_star_does_not_hold_the_pseudo_column(client: bigquery.Client, bucket: storage.Bucket, folder: str) -> None:
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 7, rows_per_day=1))
    sql = """
    WITH named AS (SELECT *, REGEXP_EXTRACT(_FILE_NAME, r'([^/]+)$') AS file FROM delivery)
    SELECT n.*, d.* EXCEPT (id) FROM named AS n JOIN delivery AS d ON n.day = d.day
    """
    with pytest.raises(exceptions.BadRequest, match="Duplicate column names"):
        client.query_and_wait(sql, job_config=reading(defined(uri)))
    sql = sql.replace("d.* EXCEPT (id)", "d.number + 1 AS next")
    assert rows_of(client, sql, job_config=reading(defined(uri))) == [(TODAY, 0, 7, "a.parquet", 8)]


def test_pseudo_column_needs_an_alias_and_an_external_table(
    client: bigquery.Client, bucket: storage.Bucket, dataset: str, folder: str
) -> None:
    """Source: "Specifying a schema", column names: the prefix _FILE_ is not allowed."""
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 7))
    with pytest.raises(exceptions.BadRequest, match="Invalid field name"):
        client.query_and_wait("SELECT _FILE_NAME FROM delivery", job_config=reading(defined(uri)))
    make_table(client, f"{dataset}.t")
    with pytest.raises(exceptions.BadRequest, match="Unrecognized name: _FILE_NAME"):
        client.query_and_wait(f"SELECT _FILE_NAME AS f FROM {dataset}.t")


def test_manifest_names_the_files(client: bigquery.Client, bucket: storage.Bucket, folder: str) -> None:
    """Source: ExternalDataConfiguration.fileSetSpecType."""
    uris = [upload(bucket, f"{folder}/{number}.parquet", snapshot([TODAY], number)) for number in range(3)]
    bucket.blob(f"{folder}/manifest").upload_from_string("\n".join(uris[:2]))
    external = defined(f"gs://{bucket.name}/{folder}/manifest")
    external._properties["fileSetSpecType"] = "FILE_SET_SPEC_TYPE_NEW_LINE_DELIMITED_MANIFEST"  # no attribute for it
    sql = "SELECT DISTINCT number FROM delivery ORDER BY number"
    assert rows_of(client, sql, job_config=reading(external)) == [(0,), (1,)]


def test_bytes_are_those_of_the_referenced_columns(
    client: bigquery.Client, bucket: storage.Bucket, folder: str
) -> None:
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 1, rows_per_day=10))
    for columns, expected in (("id", 80), ("id, number", 160), ("_FILE_NAME AS f", 0), ("COUNT(*) AS n", 0)):
        job = client.query(f"SELECT {columns} FROM delivery", job_config=reading(defined(uri)))
        job.result()
        assert job.total_bytes_processed == expected, columns
        assert job.total_bytes_billed == (10 * MEGABYTE if expected else 0)
        assert job.referenced_tables == []


def test_schema_comes_from_the_alphabetically_last_file(
    client: bigquery.Client, bucket: storage.Bucket, folder: str
) -> None:
    """Source: "Loading Parquet data", Parquet schemas."""
    upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 1).drop_columns(["number"]))
    upload(bucket, f"{folder}/b.parquet", snapshot([TODAY], 1))
    uris = f"gs://{bucket.name}/{folder}/*.parquet"
    assert rows_of(client, "SELECT COUNT(*), COUNT(number) FROM delivery", job_config=reading(defined(uris))) == [
        (4, 2)
    ]
    wrong = snapshot([TODAY], 1).set_column(2, "number", pa.array(["1", "2"]))
    upload(bucket, f"{folder}/aa.parquet", wrong)
    with pytest.raises(exceptions.BadRequest, match=r"'number' has type \[STRING\].*aa\.parquet"):
        client.query_and_wait("SELECT number FROM delivery", job_config=reading(defined(uris)))


def test_schema_of_parquet_files_cannot_be_given(client: bigquery.Client, bucket: storage.Bucket, folder: str) -> None:
    """REST resource tables, ExternalDataConfiguration.schema."""
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 1))
    with pytest.raises(exceptions.BadRequest, match="Schema is disallowed for Parquet"):
        client.query_and_wait("SELECT id FROM delivery", job_config=reading(defined(uri, schema=SCHEMA)))


def test_damaged_file_is_named(client: bigquery.Client, bucket: storage.Bucket, folder: str) -> None:
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 1))
    content = bucket.blob(f"{folder}/a.parquet").download_as_bytes()
    bucket.blob(f"{folder}/a.parquet").upload_from_string(content[:-10])
    job = client.query("SELECT id FROM delivery", job_config=reading(defined(uri)))
    with pytest.raises(exceptions.BadRequest, match=f"File: {uri}"):
        job.result()
    assert client.get_job(job.job_id).error_result["reason"] == "invalid"


def test_query_into_a_table_keeps_what_the_table_is(
    client: bigquery.Client, bucket: storage.Bucket, dataset: str, folder: str
) -> None:
    """WRITE_TRUNCATE_DATA replaces rows only; columns of the result match by name."""
    made = make_table(client, f"{dataset}.t")
    made.description, made.labels = "kept", {"also": "kept"}
    client.update_table(made, ["description", "labels"])
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 1))
    config = reading(defined(uri), destination=made.reference, write_disposition="WRITE_TRUNCATE_DATA",
                     query_parameters=[bigquery.ScalarQueryParameter("key", "INT64", 0)])  # fmt: skip
    job = client.query(
        "SELECT number, day, id FROM delivery WHERE id >= @key "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY day ORDER BY id DESC) = 1",
        job_config=config,
    )
    job.result()
    assert job.statement_type == "SELECT"
    assert rows_of(client, f"SELECT * FROM {dataset}.t") == [(TODAY, 1, 1)]
    table = client.get_table(made)
    assert (table.description, table.labels, table.clustering_fields) == ("kept", {"also": "kept"}, ["id"])
    assert (table.time_partitioning.expiration_ms, table.created) == (730 * 86_400_000, made.created)
    with pytest.raises(exceptions.BadRequest, match="has changed type"):
        client.query("SELECT day, id, 'x' AS number FROM delivery", job_config=config).result()


def test_external_table_feeds_an_insert(
    client: bigquery.Client, bucket: storage.Bucket, dataset: str, folder: str
) -> None:
    make_table(client, f"{dataset}.t")
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 1))
    job = client.query(f"INSERT {dataset}.t SELECT * FROM delivery", job_config=reading(defined(uri)))
    job.result()
    assert job.num_dml_affected_rows == 2
    assert rows_of(client, f"SELECT DISTINCT day FROM {dataset}.t") == [(date.fromisoformat(str(TODAY)),)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"autodetect": True}, exceptions.MethodNotImplemented, "tableDefinitions.delivery.autodetect"),
        ({"max_bad_records": 3}, exceptions.MethodNotImplemented, "tableDefinitions.delivery.maxBadRecords"),
        ({"source_uris": ["gs://landing/absent"]}, exceptions.NotFound, "gs://landing/absent"),
        ({"source_uris": ["gs://landing/x"] * 10_001}, exceptions.BadRequest, "Too many source URIs"),
    ],
)
def test_what_is_not_carried_out_is_refused(
    client: bigquery.Client, options: dict[str, Any], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        client.query("SELECT 1 AS n FROM delivery", job_config=reading(defined("gs://landing/x", **options))).result()


def test_scripts_have_no_external_tables(client: bigquery.Client) -> None:
    with pytest.raises(exceptions.BadRequest, match="tableDefinitions cannot be set for scripts"):
        client.query("SELECT 1; SELECT 2", job_config=reading(defined("gs://landing/x"))).result()


def test_external_table_has_no_past(client: bigquery.Client, bucket: storage.Bucket, folder: str) -> None:
    uri = upload(bucket, f"{folder}/a.parquet", snapshot([TODAY], 1))
    sql = "SELECT id FROM delivery FOR SYSTEM_TIME AS OF CURRENT_TIMESTAMP()"
    with pytest.raises(exceptions.BadRequest, match="external table delivery"):
        client.query(sql, job_config=reading(defined(uri))).result()
