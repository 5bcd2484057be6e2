"""Rows as messages of the Storage Write API; large requests, lost connections, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import grpc
import pytest
from google.cloud.bigquery_storage_v1 import types
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.rpc.status_pb2 import Status

from dedup_clone.contract.errors import JobFailed, LeaseLost
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.orchestration.dag_factory import is_permanent
from dedup_clone.warehouse import append_rows
from dedup_clone.warehouse.append_rows import RowAppender, open_write_client
from dedup_clone.warehouse.row_messages import RowMessages, sequence_number

SERVICE = "google.cloud.bigquery.storage.v1.BigQueryWrite"
Answer = types.AppendRowsResponse | grpc.StatusCode
ACCEPTED = types.AppendRowsResponse(append_result=types.AppendRowsResponse.AppendResult())


@dataclass
class WriteServer:
    """The running server. `answer`: a function from the number of a request to its answer, or to an error status.

    Requests are numbered from 0. An error status ends the connection. `requests`: all requests so far. `connections`:
    the number of the first request of each connection. `seconds_left`: how long each of them could last.
    """

    address: str
    answer: Callable[[int], Answer] = lambda number: ACCEPTED
    requests: list[types.AppendRowsRequest] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)
    seconds_left: list[float] = field(default_factory=list)

    def serve(self, requests: Iterator[types.AppendRowsRequest], context: Any) -> Iterator[types.AppendRowsResponse]:
        self.connections.append(len(self.requests))
        self.seconds_left.append(context.time_remaining())
        for request in requests:
            number = len(self.requests)
            self.requests.append(request)
            answer = self.answer(number)
            if isinstance(answer, grpc.StatusCode):
                context.abort(answer, "the server went away")
            yield answer

    def rows(self) -> list[Any]:
        """The rows of all requests, decoded with the schema that their connection began with."""
        found = []
        for number, request in enumerate(self.requests):
            if number in self.connections:
                file = FileDescriptorProto(name="sent.proto", syntax="proto2")
                file.message_type.add().CopyFrom(request.proto_rows.writer_schema.proto_descriptor)
                pool = DescriptorPool()
                pool.Add(file)
                message = GetMessageClass(pool.FindMessageTypeByName(file.message_type[0].name))
            found += [message.FromString(row) for row in request.proto_rows.rows.serialized_rows]
        return found


@contextmanager
def write_server() -> Iterator[WriteServer]:
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", 32 << 20)])
    started = WriteServer(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    handler = grpc.stream_stream_rpc_method_handler(
        lambda requests, context: started.serve(requests, context),
        types.AppendRowsRequest.deserialize,
        types.AppendRowsResponse.serialize,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"AppendRows": handler}),))
    server.start()
    try:
        yield started
    finally:
        server.stop(None)


def decoded(column: Column, value: Any) -> Any:
    messages = RowMessages((column,))
    return messages._message.FromString(messages.change({column.name: value}, "1"))


@pytest.mark.parametrize(
    ("kind", "value", "sent"),
    [
        ("BOOL", False, False),
        ("BYTES", b"\x00\xff", b"\x00\xff"),
        ("DATE", date(1, 1, 1), -719162),
        ("DATE", date(9999, 12, 31), 2932896),
        ("DATETIME", datetime(999, 1, 2, 3, 4, 5, 6, tzinfo=UTC).replace(tzinfo=None), "0999-01-02 03:04:05.000006"),
        ("FLOAT64", -0.0, -0.0),
        ("INT64", -(2**63), -(2**63)),
        ("NUMERIC", Decimal("1E+28"), "1" + 28 * "0"),
        ("NUMERIC", Decimal("-0.000000001"), "-0.000000001"),
        ("STRING", "ä\x00", "ä\x00"),
        ("TIMESTAMP", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), -1),
        ("TIMESTAMP", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), 253402300799999999),
    ],
)
def test_each_type_is_sent_as_bigquery_takes_it(kind: str, value: Any, sent: Any) -> None:
    assert decoded(Column("value", kind), value).value == sent
    assert list(decoded(Column("value", kind, ColumnMode.REPEATED), [value, value]).value) == [sent, sent]
    assert not decoded(Column("value", kind), None).HasField("value")


def test_nested_columns_have_messages_of_their_own() -> None:
    city = Column("city", "STRUCT", fields=(Column("name", "STRING"), Column("zip", "INT64")))
    stores = Column("stores", "STRUCT", ColumnMode.REPEATED, (city, Column("id", "INT64")))
    row = decoded(stores, [{"city": {"name": "Ulm", "zip": None}, "id": 1}, {"city": None, "id": 2}])
    assert [store.id for store in row.stores] == [1, 2]
    assert row.stores[0].city.name == "Ulm"
    assert not row.stores[0].city.HasField("zip")
    assert not row.stores[1].HasField("city")


def test_a_struct_of_nulls_is_not_a_null() -> None:
    city = Column("city", "STRUCT", fields=(Column("name", "STRING"),))
    assert decoded(city, {"name": None}).HasField("city")
    assert not decoded(city, None).HasField("city")


def test_each_row_replaces_that_of_its_key() -> None:
    messages = RowMessages((Column("id", "INT64"),))
    row = messages._message.FromString(messages.change({"id": 1}, sequence_number(7, 2**63 - 1, 31)))
    assert (row._CHANGE_TYPE, row._CHANGE_SEQUENCE_NUMBER) == ("UPSERT", "7/7FFFFFFFFFFFFFFF/1F")
    assert re.fullmatch(r"[0-9A-F]{1,16}(/[0-9A-F]{1,16}){0,3}", row._CHANGE_SEQUENCE_NUMBER)


TABLE = "projects/p/datasets/d/tables/t"
COLUMNS = (Column("id", "INT64"), Column("text", "STRING"))
TEXT = "x" * 3_000_000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteServer]:
    with write_server() as started:
        monkeypatch.setenv("BIGQUERY_STORAGE_EMULATOR_HOST", started.address)
        yield started


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def appender(server: WriteServer, pauses: list[float]) -> RowAppender:
    return RowAppender(open_write_client(None), TABLE, RowMessages(COLUMNS), lambda: None, sleep=pauses.append)


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
    assert (appender.rows, server.connections) == (7, [0])
    assert appender.size == sum(len(m) for r in server.requests for m in r.proto_rows.rows.serialized_rows)


def test_nothing_is_sent_without_rows(server: WriteServer, appender: RowAppender) -> None:
    appender.finish()
    assert server.requests == []


@pytest.mark.parametrize("lost_at", [0, 1, 8, 16])
def test_requests_without_an_answer_are_sent_again(
    server: WriteServer, appender: RowAppender, monkeypatch: pytest.MonkeyPatch, pauses: list[float], lost_at: int
) -> None:
    monkeypatch.setattr(append_rows, "MAX_REQUEST_BYTES", 1)  # a request for each row
    lost = {lost_at: grpc.StatusCode.UNAVAILABLE, lost_at + 1: grpc.StatusCode.ABORTED}
    server.answer = lambda number: lost.get(number, ACCEPTED)
    rows = 32
    append(appender, rows, "a")
    appender.finish()
    assert set(ids(server)) == set(range(rows))
    assert len(server.connections) == 4 + 2  # four connections of eight requests, and two more for the lost requests
    assert pauses == [1.0, 2.0]
    assert appender.rows == rows


def test_a_server_that_stays_away_is_given_up(server: WriteServer, appender: RowAppender, pauses: list[float]) -> None:
    server.answer = lambda number: grpc.StatusCode.UNAVAILABLE
    append(appender, 1, "a")
    with pytest.raises(JobFailed, match=r"after \[8\] tries") as failed:
        appender.finish()
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert not is_permanent(failed.value)


def test_a_writer_that_may_not_write_any_more_opens_no_connection_for_rows(
    server: WriteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_rows, "MAX_REQUEST_BYTES", 1)  # a request for each row
    answers = iter([None, None, LeaseLost("ended")])

    def require_writer() -> None:
        if problem := next(answers):
            raise problem

    appender = RowAppender(open_write_client(None), TABLE, RowMessages(COLUMNS), require_writer)
    with pytest.raises(LeaseLost, match="ended"):
        append(appender, 32, "a")
    assert ids(server) == list(range(16))
    assert all(0 < seconds < 125 for seconds in server.seconds_left), "a connection that is open ends by itself"


def test_refused_rows_are_named_and_not_sent_again(server: WriteServer, appender: RowAppender) -> None:
    refused = types.AppendRowsResponse(
        error=Status(code=grpc.StatusCode.INVALID_ARGUMENT.value[0], message="Errors found"),
        row_errors=[types.RowError(index=1, code=types.RowError.RowErrorCode.FIELDS_ERROR, message="bad id")],
    )
    answers: dict[int, Answer] = {0: refused}
    server.answer = lambda number: answers.get(number, ACCEPTED)
    append(appender, 2, "a")
    with pytest.raises(JobFailed, match=r"row 1: bad id") as failed:
        appender.finish()
    assert is_permanent(failed.value)
    assert len(server.requests) == 1
