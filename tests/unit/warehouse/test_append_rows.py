"""Rows are sent to the default stream in large requests, again after a lost connection, and refusals are named."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from google.cloud.bigquery_storage_v1 import types
from google.rpc.status_pb2 import Status

from dedup_clone.contract.errors import JobFailed
from dedup_clone.contract.table import Column
from dedup_clone.orchestration.shared.retries import is_permanent
from dedup_clone.warehouse import append_rows
from dedup_clone.warehouse.append_connection import ADDRESS_VARIABLE, open_write_client
from dedup_clone.warehouse.append_rows import (
    MAX_REQUEST_BYTES,
    MAX_TRIES,
    REQUESTS_IN_FLIGHT,
    RowAppender,
)
from dedup_clone.warehouse.row_messages import RowMessages
from tests.unit.warehouse.write_server import ACCEPTED, Answer, WriteServer, write_server

TABLE = "projects/p/datasets/d/tables/t"
COLUMNS = (Column("id", "INT64"), Column("text", "STRING"))
TEXT = "x" * (MAX_REQUEST_BYTES // 3)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteServer]:
    with write_server() as started:
        monkeypatch.setenv(ADDRESS_VARIABLE, started.address)
        yield started


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def appender(server: WriteServer, pauses: list[float]) -> Iterator[RowAppender]:
    opened = RowAppender(open_write_client(None), TABLE, RowMessages(COLUMNS), sleep=pauses.append)
    yield opened
    opened.close()


def append(appender: RowAppender, rows: int, text: str = TEXT) -> None:
    for number in range(rows):
        appender.append({"id": number, "text": text}, "7")


def ids(server: WriteServer) -> list[int]:
    return [row.id for row in server.rows()]


def test_large_requests_below_the_limit_go_to_the_default_stream(server: WriteServer, appender: RowAppender) -> None:
    append(appender, 7)
    appender.finish()
    assert [len(r.proto_rows.rows.serialized_rows) for r in server.requests] == [2, 2, 2, 1]
    assert all(types.AppendRowsRequest.pb(r).ByteSize() < 10_000_000 for r in server.requests)
    assert {r.write_stream for r in server.requests} == {f"{TABLE}/streams/_default"}
    assert ids(server) == list(range(7))
    assert (appender.rows, appender.requests, server.connections) == (7, 4, [0])
    assert appender.size == sum(len(m) for r in server.requests for m in r.proto_rows.rows.serialized_rows)


def test_nothing_is_sent_without_rows(server: WriteServer, appender: RowAppender) -> None:
    appender.finish()
    assert server.requests == []


@pytest.mark.parametrize("lost_at", [0, 1, REQUESTS_IN_FLIGHT, 2 * REQUESTS_IN_FLIGHT])
def test_requests_without_an_answer_are_sent_again(
    server: WriteServer, appender: RowAppender, monkeypatch: pytest.MonkeyPatch, pauses: list[float], lost_at: int
) -> None:
    monkeypatch.setattr(append_rows, "MAX_REQUEST_BYTES", 1)  # a request for each row
    lost = {lost_at: grpc.StatusCode.UNAVAILABLE, lost_at + 1: grpc.StatusCode.ABORTED}
    server.answer = lambda number: lost.get(number, ACCEPTED)
    rows = 4 * REQUESTS_IN_FLIGHT
    append(appender, rows, "a")
    appender.finish()
    assert set(ids(server)) == set(range(rows))
    assert len(server.connections) == 3
    assert pauses == [1.0, 2.0]
    assert appender.rows == rows


def test_a_server_that_stays_away_is_given_up(server: WriteServer, appender: RowAppender, pauses: list[float]) -> None:
    server.answer = lambda number: grpc.StatusCode.UNAVAILABLE
    append(appender, 1, "a")
    with pytest.raises(JobFailed, match=rf"after \[{MAX_TRIES}\] tries: .*the server went away") as failed:
        appender.finish()
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert not is_permanent(failed.value)


def test_refused_rows_are_named_and_not_sent_again(server: WriteServer, appender: RowAppender) -> None:
    refused = types.AppendRowsResponse(
        error=Status(code=grpc.StatusCode.INVALID_ARGUMENT.value[0], message="Errors found"),
        row_errors=[types.RowError(index=1, code=types.RowError.RowErrorCode.FIELDS_ERROR, message="bad id")],
    )
    answers: dict[int, Answer] = {0: refused}
    server.answer = lambda number: answers.get(number, ACCEPTED)
    append(appender, 2, "a")
    with pytest.raises(JobFailed, match=r"Errors found \(1 rows: row 1: bad id\)") as failed:
        appender.finish()
    assert is_permanent(failed.value)
    assert len(server.requests) == 1
