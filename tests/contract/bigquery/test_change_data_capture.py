"""Change data capture through google-cloud-bigquery-storage: upserts, deletes, retries, late changes, refusals.

Page: "Stream table updates with change data capture".
"""

from __future__ import annotations

import io
import uuid
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq
import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient, types

from tests.shared.stand_in_client import PROJECT, Control, rows_of
from tests.shared.write_api_client import append, append_request, default_stream, message_class

CHANGE = message_class({"id": "int64", "name": "string", "_CHANGE_TYPE": "string", "_CHANGE_SEQUENCE_NUMBER": "string"})
PLAIN = message_class({"id": "int64", "name": "string"})
INVALID_ARGUMENT = 3


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    client.query_and_wait(
        f"CREATE TABLE {dataset}.t (id INT64 PRIMARY KEY NOT ENFORCED, name STRING NOT NULL) CLUSTER BY id"
    )
    client.query_and_wait(f"INSERT {dataset}.t VALUES (100, 'Charlie'), (101, 'Tal'), (102, 'Lee')")
    return f"{dataset}.t"


def upsert(key: int, name: str, **more: str) -> Any:
    return CHANGE(id=key, name=name, _CHANGE_TYPE="UPSERT", **more)


def delete(key: int, **more: str) -> Any:
    return CHANGE(id=key, _CHANGE_TYPE="DELETE", **more)


def at(sequence: str) -> dict[str, str]:
    return {"_CHANGE_SEQUENCE_NUMBER": sequence}


def send(writer: BigQueryWriteClient, table: str, *rows: Any, kind: Any = CHANGE) -> types.AppendRowsResponse:
    (response,) = append(writer, append_request(default_stream(table), kind, rows))
    return response


def names(client: bigquery.Client, table: str) -> dict[int, str]:
    return dict(rows_of(client, f"SELECT id, name FROM {table}"))


def test_upserts_and_deletes_are_seen_by_the_next_query(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    response = send(writer, table, delete(100), upsert(101, "Tala"), upsert(105, "Izumi"))
    assert "append_result" in response
    assert names(client, table) == {101: "Tala", 102: "Lee", 105: "Izumi"}


def test_a_retried_append_and_a_late_one_change_nothing(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    second = append_request(
        default_stream(table), CHANGE, [upsert(101, "second", **at("2/0")), delete(100, **at("2/1"))]
    )
    first = append_request(
        default_stream(table), None, [upsert(101, "first", **at("1/FF")), upsert(100, "x", **at("1"))]
    )
    responses = append(writer, second, second, first)
    assert ["append_result" in response for response in responses] == [True] * 3
    assert names(client, table) == {101: "second", 102: "Lee"}


def test_changes_are_not_mixed_with_plain_rows_on_one_connection(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    plain = append_request(default_stream(table), PLAIN, [PLAIN(id=1, name="plain")])
    accepted, refused = append(writer, append_request(default_stream(table), CHANGE, [delete(100)]), plain)
    assert "append_result" in accepted
    assert (refused.error.code, refused.error.message) == (
        INVALID_ARGUMENT,
        "The given value is not a valid CHANGE_TYPE",
    )
    assert "append_result" in append(writer, plain)[0]
    assert names(client, table) == {1: "plain", 101: "Tal", 102: "Lee"}


def test_an_insert_is_a_plain_row(client: bigquery.Client, writer: BigQueryWriteClient, table: str) -> None:
    send(writer, table, CHANGE(id=101, name="again", _CHANGE_TYPE="INSERT"))
    assert rows_of(client, f"SELECT COUNT(*) FROM {table} WHERE id = 101") == [(2,)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (CHANGE(id=1, name="x", _CHANGE_TYPE="MERGE"), "not a valid CHANGE_TYPE"),
        (upsert(1, "x", **at("xyz")), "hexadecimal"),
        (CHANGE(name="x", _CHANGE_TYPE="UPSERT"), "primary key"),
        (CHANGE(id=1, _CHANGE_TYPE="UPSERT"), "required"),
    ],
)
def test_a_wrong_change_is_named_and_its_request_changes_nothing(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str, wrong: Any, message: str
) -> None:
    more = at("1") if wrong.HasField("_CHANGE_SEQUENCE_NUMBER") else {}
    response = send(writer, table, delete(100, **more), wrong)
    assert response.error.code == INVALID_ARGUMENT
    assert [(error.index, message in error.message) for error in response.row_errors] == [(1, True)]
    assert 100 in names(client, table)


def test_a_table_without_primary_key_refuses_changes(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    client.query_and_wait(f"ALTER TABLE {table} DROP PRIMARY KEY")
    response = send(writer, table, delete(100))
    assert response.error.code == INVALID_ARGUMENT
    assert "needs a primary key" in response.error.message


def test_pseudocolumns_cannot_be_queried(client: bigquery.Client, writer: BigQueryWriteClient, table: str) -> None:
    send(writer, table, upsert(105, "Izumi"))
    for column in ("_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"):
        with pytest.raises(exceptions.BadRequest, match=column):
            client.query_and_wait(f"SELECT {column} FROM {table}")


@pytest.fixture
def stale(client: bigquery.Client, table: str) -> str:
    """The table, which may be two hours stale."""
    client.query_and_wait(f"ALTER TABLE {table} SET OPTIONS (max_staleness = INTERVAL 2 HOUR)")
    return table


def watermark(client: bigquery.Client, table: str) -> datetime | None:
    dataset, name = table.split(".")
    view = f"{dataset}.INFORMATION_SCHEMA.TABLES WHERE table_name = '{name}'"
    found: datetime | None = rows_of(client, f"SELECT upsert_stream_apply_watermark FROM {view}")[0][0]
    return found


def test_a_client_waits_for_the_watermark_before_it_clones(
    client: bigquery.Client, writer: BigQueryWriteClient, control: Control, stale: str
) -> None:
    send(writer, stale, delete(100), upsert(105, "Izumi"))
    acknowledged = control.now()
    assert names(client, stale) == {100: "Charlie", 101: "Tal", 102: "Lee"}
    assert watermark(client, stale) is None
    control.advance(hours=1)
    applied = watermark(client, stale)
    assert applied is not None
    assert applied > acknowledged
    client.query_and_wait(f"CREATE TABLE {stale}_clone CLONE {stale}")
    assert names(client, f"{stale}_clone") == {101: "Tal", 102: "Lee", 105: "Izumi"}
    assert client.get_table(stale).num_rows == 3


def test_exports_and_listed_rows_have_applied_changes_only(
    client: bigquery.Client, writer: BigQueryWriteClient, control: Control, bucket: storage.Bucket, stale: str
) -> None:
    def exported() -> list[int]:
        uri = f"gs://{bucket.name}/cdc/{uuid.uuid4().hex}.parquet"
        config = bigquery.ExtractJobConfig(destination_format="PARQUET")
        client.extract_table(stale, uri, job_config=config).result()
        content = bucket.blob(uri.removeprefix(f"gs://{bucket.name}/")).download_as_bytes()
        return sorted(pq.read_table(io.BytesIO(content)).column("id").to_pylist())

    send(writer, stale, delete(100))
    assert exported() == sorted(row["id"] for row in client.list_rows(f"{PROJECT}.{stale}")) == [100, 101, 102]
    control.advance(hours=1)
    assert exported() == sorted(row["id"] for row in client.list_rows(f"{PROJECT}.{stale}")) == [101, 102]


def test_apply_jobs_are_listed_with_their_cost(
    client: bigquery.Client, writer: BigQueryWriteClient, control: Control, stale: str
) -> None:
    send(writer, stale, delete(100))
    control.advance(hours=1)
    dataset, name = stale.split(".")
    jobs = [
        job
        for job in client.list_jobs(all_users=True)
        if "cdc_background" in job.job_id and job.destination.dataset_id == dataset
    ]
    assert [(job.state, job.error_result, job.total_bytes_billed) for job in jobs] == [("DONE", None, 10 << 20)]
    seen = rows_of(
        client,
        "SELECT destination_table.table_id, user_email FROM `region-us`.INFORMATION_SCHEMA.JOBS "
        f"WHERE job_id LIKE '%cdc_background%' AND destination_table.dataset_id = '{dataset}'",
    )
    assert seen == [(name, "bigquery-adminbot@system.gserviceaccount.com")]
