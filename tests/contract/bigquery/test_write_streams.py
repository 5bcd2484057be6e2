"""Write streams that clients create, through google-cloud-bigquery-storage.

Pages of BigQuery's documentation: Storage RPC reference, BigQueryWrite; Batch load data using the Storage Write API
(gRPC); Quotas and limits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
from google.cloud.bigquery_storage_v1.types import (
    AppendRowsResponse,
    BatchCommitWriteStreamsRequest,
    FlushRowsRequest,
    StorageError,
    WriteStream,
)

from tests.shared.stand_in_client import Control, rows_of
from tests.shared.write_api_client import (
    append,
    append_request,
    default_stream,
    message_class,
    storage_error,
    table_path,
)

ROW = message_class({"id": "int64"})
Type = WriteStream.Type
Code = StorageError.StorageErrorCode
INVALID_ARGUMENT, ALREADY_EXISTS, ABORTED, OUT_OF_RANGE = 3, 6, 10, 11


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    client.query(f"CREATE TABLE {dataset}.t (id INT64)").result()
    return f"{dataset}.t"


def create(writer: BigQueryWriteClient, table: str, kind: Any) -> str:
    name: str = writer.create_write_stream(parent=table_path(table), write_stream=WriteStream(type_=kind)).name
    return name


def rows(*ids: int) -> list[Any]:
    return [ROW(id=number) for number in ids]


def ids(client: bigquery.Client, table: str) -> list[int]:
    return [found for (found,) in rows_of(client, f"SELECT id FROM {table} ORDER BY id")]


def commit(writer: BigQueryWriteClient, table: str, *streams: str) -> Any:
    request = BatchCommitWriteStreamsRequest(parent=table_path(table), write_streams=streams)
    return writer.batch_commit_write_streams(request=request)


def refusal(response: AppendRowsResponse) -> tuple[int, Any]:
    return response.error.code, storage_error(response.error).code


def test_appends_of_a_committed_stream_are_visible_at_once_and_each_offset_once(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    stream = create(writer, table, Type.COMMITTED)
    responses = append(
        writer,
        append_request(stream, ROW, rows(1, 2), offset=0),
        append_request(stream, None, rows(1, 2), offset=0),
        append_request(stream, None, rows(9), offset=3),
        append_request(stream, None, rows(3), offset=2),
        append_request(stream, None, rows(4)),
    )
    assert [response.append_result.offset for response in responses if not response.error.code] == [0, 2, 3]
    assert refusal(responses[1]) == (ALREADY_EXISTS, Code.OFFSET_ALREADY_EXISTS)
    assert refusal(responses[2]) == (OUT_OF_RANGE, Code.OFFSET_OUT_OF_RANGE)
    assert ids(client, table) == [1, 2, 3, 4]
    assert client.get_table(table).streaming_buffer.estimated_rows == 4
    assert writer.finalize_write_stream(name=stream).row_count == 4
    (refused,) = append(writer, append_request(stream, ROW, rows(5)))
    assert refusal(refused) == (INVALID_ARGUMENT, Code.STREAM_FINALIZED)


def test_pending_streams_are_invisible_until_they_are_committed_together(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    streams = [create(writer, table, Type.PENDING) for _ in range(3)]
    for number, stream in enumerate(streams[:2]):
        append(writer, append_request(stream, ROW, rows(number)), append_request(stream, None, rows(number + 10)))
    assert [writer.finalize_write_stream(name=stream).row_count for stream in streams] == [2, 2, 0]
    assert ids(client, table) == []
    done = commit(writer, table, *streams)
    assert (list(done.stream_errors), done.commit_time is not None) == ([], True)
    assert ids(client, table) == [0, 1, 10, 11]
    assert client.get_table(table).streaming_buffer.estimated_rows == 4
    assert writer.get_write_stream(name=streams[0]).commit_time == done.commit_time


def test_one_stream_that_cannot_be_committed_keeps_all_from_being_committed(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    good, unfinished, done = (create(writer, table, Type.PENDING) for _ in range(3))
    committed, unknown = create(writer, table, Type.COMMITTED), f"{table_path(table)}/streams/none"
    for number, stream in enumerate((good, unfinished, done)):
        append(writer, append_request(stream, ROW, rows(number)))
    for stream in (good, done):
        writer.finalize_write_stream(name=stream)
    assert commit(writer, table, done).commit_time is not None
    failed = commit(writer, table, good, unfinished, done, committed, unknown, default_stream(table))
    assert failed.commit_time is None
    assert {(error.entity, error.code) for error in failed.stream_errors} == {
        (unfinished, Code.INVALID_STREAM_STATE),
        (done, Code.STREAM_ALREADY_COMMITTED),
        (committed, Code.INVALID_STREAM_TYPE),
        (unknown, Code.STREAM_NOT_FOUND),
        (default_stream(table), Code.INVALID_STREAM_TYPE),
    }
    assert ids(client, table) == [2]
    assert commit(writer, table, good).commit_time is not None
    assert ids(client, table) == [0, 2]


def test_a_commit_has_at_most_ten_thousand_streams(writer: BigQueryWriteClient, table: str) -> None:
    """Source: "Quotas and limits", Storage Write API, batch commits."""
    streams = [f"{table_path(table)}/streams/{number}" for number in range(10_001)]
    with pytest.raises(exceptions.InvalidArgument, match="allowed are 1 to 10000"):
        commit(writer, table, *streams)
    assert len(commit(writer, table, *streams[1:]).stream_errors) == 10_000


def test_a_commit_whose_answer_was_lost_is_not_repeated(
    client: bigquery.Client, writer: BigQueryWriteClient, control: Control, table: str
) -> None:
    stream = create(writer, table, Type.PENDING)
    append(writer, append_request(stream, ROW, rows(1)))
    writer.finalize_write_stream(name=stream)
    path = "BigQueryWrite/BatchCommitWriteStreams"
    control.add_fault(match={"method": "POST", "path": path}, effect="lost_reply")
    (error,) = commit(writer, table, stream).stream_errors  # of the second attempt, which the client makes by itself
    assert error.code == Code.STREAM_ALREADY_COMMITTED
    assert ids(client, table) == [1]


def test_a_pending_stream_is_committed_within_a_day(
    client: bigquery.Client, writer: BigQueryWriteClient, control: Control, table: str
) -> None:
    stream = create(writer, table, Type.PENDING)
    append(writer, append_request(stream, ROW, rows(1)))
    writer.finalize_write_stream(name=stream)
    control.advance(hours=24)
    (error,) = commit(writer, table, stream).stream_errors
    assert error.code == Code.INVALID_STREAM_STATE
    assert ids(client, table) == []


def test_buffered_rows_are_visible_up_to_the_flushed_offset(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    stream = create(writer, table, Type.BUFFERED)
    append(writer, append_request(stream, ROW, rows(1, 2)), append_request(stream, None, rows(3, 4)))

    def flush(offset: int) -> Any:
        return writer.flush_rows(request=FlushRowsRequest(write_stream=stream, offset=offset)).offset

    assert ids(client, table) == []
    assert (flush(2), ids(client, table)) == (2, [1, 2, 3])
    assert (flush(0), ids(client, table)) == (2, [1, 2, 3])
    with pytest.raises(exceptions.OutOfRange):
        flush(4)
    assert (flush(3), ids(client, table)) == (3, [1, 2, 3, 4])


def test_only_buffered_streams_are_flushed_and_the_default_stream_is_never_finalized(
    writer: BigQueryWriteClient, table: str
) -> None:
    stream = create(writer, table, Type.COMMITTED)
    with pytest.raises(exceptions.InvalidArgument) as failed:
        writer.flush_rows(request=FlushRowsRequest(write_stream=stream, offset=0))
    assert storage_error(failed.value).code == Code.INVALID_STREAM_TYPE
    with pytest.raises(exceptions.InvalidArgument) as failed:
        writer.finalize_write_stream(name=default_stream(table))
    assert storage_error(failed.value).code == Code.INVALID_STREAM_TYPE


def test_a_created_stream_has_one_connection(client: bigquery.Client, writer: BigQueryWriteClient, table: str) -> None:
    stream = create(writer, table, Type.COMMITTED)
    second_is_done = threading.Event()

    def requests() -> Iterator[Any]:
        yield append_request(stream, ROW, rows(1))
        assert second_is_done.wait(60)
        yield append_request(stream, None, rows(3))

    responses = writer.append_rows(requests())
    before = next(responses)  # a client may send a request before the server has read the one before it
    append(writer, append_request(stream, ROW, rows(2)))
    second_is_done.set()
    assert [response.error.code for response in (before, *responses)] == [0, ABORTED]
    assert ids(client, table) == [1, 2]


def test_only_the_default_stream_takes_row_changes(writer: BigQueryWriteClient, table: str) -> None:
    kind = message_class({"id": "int64", "_CHANGE_TYPE": "string"})
    stream = create(writer, table, Type.COMMITTED)
    (refused,) = append(writer, append_request(stream, kind, [kind(id=1, _CHANGE_TYPE="UPSERT")]))
    assert (refused.error.code, "Only the default stream" in refused.error.message) == (INVALID_ARGUMENT, True)


def test_streams_are_unknown_before_they_are_created_and_after_their_table_was_replaced(
    client: bigquery.Client, writer: BigQueryWriteClient, table: str
) -> None:
    stream = create(writer, table, Type.COMMITTED)
    client.query(f"CREATE OR REPLACE TABLE {table} (id INT64)").result()
    for name in (stream, f"{table_path(table)}/streams/none"):
        with pytest.raises(exceptions.NotFound) as failed:
            append(writer, append_request(name, ROW, rows(1)))
        assert storage_error(failed.value).code == Code.STREAM_NOT_FOUND
    with pytest.raises(exceptions.NotFound) as failed:
        create(writer, f"{table}_none", Type.PENDING)
    assert storage_error(failed.value).code == Code.TABLE_NOT_FOUND
    with pytest.raises(exceptions.InvalidArgument, match="type is not given"):
        create(writer, table, Type.TYPE_UNSPECIFIED)


def test_a_stream_is_shown_with_its_type_and_the_columns_of_its_table(writer: BigQueryWriteClient, table: str) -> None:
    created = writer.create_write_stream(parent=table_path(table), write_stream=WriteStream(type_=Type.BUFFERED))
    assert (created.type_, created.location, created.commit_time) == (Type.BUFFERED, "US", None)
    assert [field.name for field in created.table_schema.fields] == ["id"]
    assert writer.get_write_stream(name=created.name).create_time == created.create_time
