"""The Storage Write API, as engine cdc uses it: row changes in the default stream of a table with a primary key."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pyarrow.parquet as pq
from google.cloud.bigquery import ExtractJobConfig
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient

from tests.conformance.rules import rule
from tests.conformance.sandbox import Sandbox
from tests.shared.write_api_client import append, append_request, default_stream, message_class, write_client

PLAIN = message_class({"id": "int64", "name": "string"})


@contextmanager
def writer() -> Iterator[BigQueryWriteClient]:
    """Google's client of the stand-in that conftest.py names in the environment, or of Google Cloud."""
    address = os.environ.get("BIGQUERY_STORAGE_EMULATOR_HOST")
    if address is None:
        yield BigQueryWriteClient()
        return
    with grpc.insecure_channel(address) as channel:
        yield write_client(channel)


def send(table: str, *requests: list[Any]) -> list[Any]:
    """Send requests with these rows over one connection. Returns the responses."""
    kinds = [type(rows[0]) for rows in requests]
    new = [kind if number == 0 or kind is not kinds[number - 1] else None for number, kind in enumerate(kinds)]
    stream, parts = default_stream(table), zip(new, requests, strict=True)
    with writer() as client:
        return append(client, *(append_request(stream, kind, rows) for kind, rows in parts))


CHANGE = message_class({"id": "int64", "name": "string", "_CHANGE_TYPE": "string", "_CHANGE_SEQUENCE_NUMBER": "string"})
INVALID_ARGUMENT = 3
PAGE = "Stream table updates with change data capture"
CDC = "plugins/dedup_clone/engines/stream_changes.py plugins/dedup_clone/warehouse/bigquery.py"
OTHER_ENGINE = "Set `engine: spark` instead of `cdc`."
FIRST = {100: "Charlie", 101: "Tal", 102: "Lee"}


def keyed(sandbox: Sandbox, name: str, options: str = "") -> str:
    """A table with a primary key and three rows."""
    table = sandbox.make(name, "id INT64 PRIMARY KEY NOT ENFORCED, name STRING NOT NULL", f"CLUSTER BY id {options}")
    sandbox.query(f"INSERT `{table}` VALUES {', '.join(map(str, FIRST.items()))}")
    return table


def upsert(key: int, name: str, at: str = "") -> Any:
    return CHANGE(id=key, name=name, _CHANGE_TYPE="UPSERT", **({"_CHANGE_SEQUENCE_NUMBER": at} if at else {}))


def delete(key: int, at: str = "") -> Any:
    return CHANGE(id=key, _CHANGE_TYPE="DELETE", **({"_CHANGE_SEQUENCE_NUMBER": at} if at else {}))


def names(sandbox: Sandbox, table: str) -> dict[int, str]:
    return dict(sandbox.rows(f"SELECT id, name FROM `{table}`"))


@rule(PAGE, CDC, OTHER_ENGINE)
def test_changes_are_seen_by_the_next_query(sandbox: Sandbox) -> None:
    """Without max_staleness every query merges the streamed UPSERTs and DELETEs."""
    table = keyed(sandbox, "changed")
    (response,) = send(table, [delete(100), upsert(101, "Tala"), upsert(105, "Izumi")])
    assert "append_result" in response
    assert names(sandbox, table) == {101: "Tala", 102: "Lee", 105: "Izumi"}


@rule(PAGE, CDC, OTHER_ENGINE)
def test_a_repeated_or_late_change_changes_nothing(sandbox: Sandbox) -> None:
    """_CHANGE_SEQUENCE_NUMBER orders the changes of a key by sections, however often and late they come."""
    table = keyed(sandbox, "late")
    second = [upsert(101, "second", "2/0"), delete(100, "2/1")]
    responses = send(table, second, second, [upsert(101, "first", "1/FF"), upsert(100, "x", "1")])
    assert ["append_result" in response for response in responses] == [True] * 3
    assert names(sandbox, table) == {101: "second", 102: "Lee"}


@rule(PAGE, CDC, OTHER_ENGINE)
def test_changes_are_not_mixed_with_plain_rows(sandbox: Sandbox) -> None:
    """A connection with changes takes no plain rows, also in one request."""
    table = keyed(sandbox, "mixed")
    accepted, refused = send(table, [delete(100)], [PLAIN(id=1, name="plain")])
    assert "append_result" in accepted
    assert refused.error.code == INVALID_ARGUMENT
    (refused,) = send(table, [delete(101), CHANGE(id=1, name="plain")])
    assert refused.error.code == INVALID_ARGUMENT
    assert names(sandbox, table) == {101: "Tal", 102: "Lee"}


@rule(PAGE, CDC, OTHER_ENGINE)
def test_a_wrong_change_is_named_and_its_request_changes_nothing(sandbox: Sandbox) -> None:
    """A request with a row of a wrong type, sequence number or key, or without a required value, is refused whole."""
    table = keyed(sandbox, "wrong")
    wrong = [
        CHANGE(id=1, name="x", _CHANGE_TYPE="MERGE"),
        CHANGE(id=1, name="x", _CHANGE_TYPE="upsert"),
        *(upsert(1, "x", number) for number in ("xyz", "0/1/2/3/4", "0" * 17)),
        CHANGE(name="x", _CHANGE_TYPE="UPSERT"),
        CHANGE(id=1, _CHANGE_TYPE="UPSERT"),
    ]
    for change in wrong:
        (response,) = send(table, [delete(100, "1" if change.HasField("_CHANGE_SEQUENCE_NUMBER") else ""), change])
        assert response.error.code == INVALID_ARGUMENT
        assert [error.index for error in response.row_errors] == [1]
    assert names(sandbox, table) == FIRST


@rule(PAGE, f"{CDC} plugins/dedup_clone/settings", OTHER_ENGINE)
def test_changes_need_a_primary_key(sandbox: Sandbox) -> None:
    """A table without a primary key takes no changes."""
    table = sandbox.make("keyless", "id INT64, name STRING")
    (response,) = send(table, [delete(100)])
    assert response.error.code == INVALID_ARGUMENT
    assert names(sandbox, table) == {}


@rule(PAGE, CDC, OTHER_ENGINE)
def test_pseudocolumns_cannot_be_queried(sandbox: Sandbox) -> None:
    """_CHANGE_TYPE and _CHANGE_SEQUENCE_NUMBER cannot be queried."""
    table = keyed(sandbox, "pseudo")
    send(table, [upsert(105, "Izumi")])
    for column in ("_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"):
        sandbox.refused(f"SELECT {column} FROM `{table}`")


@rule(PAGE, CDC, OTHER_ENGINE)
def test_within_max_staleness_changes_are_not_seen(sandbox: Sandbox) -> None:
    """Within max_staleness, queries and extract jobs leave out what BigQuery has not applied."""
    table = keyed(sandbox, "stale", "OPTIONS (max_staleness = INTERVAL 2 HOUR)")
    send(table, [delete(100)])
    uri = f"gs://{sandbox.bucket.name}/stale.parquet"
    config = ExtractJobConfig(destination_format="PARQUET")
    sandbox.client.extract_table(table, uri, job_config=config, location=sandbox.servers.location).result()
    exported = pq.read_table(io.BytesIO(sandbox.bucket.blob("stale.parquet").download_as_bytes()))
    assert sorted(exported.column("id").to_pylist()) == sorted(FIRST)
    assert names(sandbox, table) == FIRST
