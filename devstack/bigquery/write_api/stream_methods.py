"""Implements the methods of the Storage Write API that create, get, finalize, flush and commit write streams."""

from __future__ import annotations

from google.cloud.bigquery_storage_v1.types import (
    BatchCommitWriteStreamsRequest,
    BatchCommitWriteStreamsResponse,
    CreateWriteStreamRequest,
    FinalizeWriteStreamRequest,
    FinalizeWriteStreamResponse,
    FlushRowsRequest,
    FlushRowsResponse,
    GetWriteStreamRequest,
    WriteStream,
    WriteStreamView,
)

from devstack.bigquery.clock import to_datetime
from devstack.bigquery.storage import write_streams
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.write_api.created_streams import CreatedStreams
from devstack.bigquery.write_api.storage_errors import Code, invalid_argument
from devstack.bigquery.write_api.stream_names import DEFAULT_STREAM, StreamName, parse_stream, parse_table
from devstack.bigquery.write_api.table_schema import table_schema


class StreamMethods:
    """The methods, for the tables of one catalog. Threads may share it."""

    def __init__(self, catalog: Catalog, streams: CreatedStreams) -> None:
        self._catalog = catalog
        self._streams = streams

    def create(self, request: CreateWriteStreamRequest) -> WriteStream:
        table, stream_type = parse_table(request.parent), request.write_stream.type_
        if stream_type == WriteStream.Type.TYPE_UNSPECIFIED:
            raise invalid_argument("write_stream.type is not given: use COMMITTED, PENDING or BUFFERED.")
        stream = self._streams.create(table, WriteStream.Type(stream_type).name)
        return self._resource(StreamName(table, stream.id), stream, with_schema=True)

    def get(self, request: GetWriteStreamRequest) -> WriteStream:
        name = parse_stream(request.name)
        stream = self._default_stream(name) if name.is_default else self._streams.get(name)
        return self._resource(name, stream, with_schema=request.view == WriteStreamView.FULL)

    def finalize(self, request: FinalizeWriteStreamRequest) -> FinalizeWriteStreamResponse:
        return FinalizeWriteStreamResponse(row_count=self._streams.finalize(_created_stream(request.name)))

    def flush(self, request: FlushRowsRequest) -> FlushRowsResponse:
        message = FlushRowsRequest.pb(request)
        if not message.HasField("offset"):
            raise invalid_argument("The request has no offset: give the number of the last row to flush.")
        return FlushRowsResponse(
            offset=self._streams.flush(_created_stream(request.write_stream), message.offset.value)
        )

    def batch_commit(self, request: BatchCommitWriteStreamsRequest) -> BatchCommitWriteStreamsResponse:
        names = [parse_stream(name) for name in request.write_streams]
        committed_us, errors = self._streams.batch_commit(parse_table(request.parent), names)
        if errors:
            return BatchCommitWriteStreamsResponse(stream_errors=[error.storage_error() for error in errors])
        return BatchCommitWriteStreamsResponse(commit_time=to_datetime(committed_us))

    def _default_stream(self, name: StreamName) -> write_streams.WriteStream:
        created_us = self._catalog.get(name.table).table_created_us
        return write_streams.WriteStream(DEFAULT_STREAM, name.table, write_streams.COMMITTED, created_us, created_us)

    def _resource(self, name: StreamName, stream: write_streams.WriteStream, with_schema: bool) -> WriteStream:
        columns = self._catalog.get(name.table).settings.schema
        committed_us = stream.created_us if stream.type == write_streams.COMMITTED else stream.committed_us
        return WriteStream(
            name=str(name),
            type_=getattr(WriteStream.Type, stream.type),
            create_time=to_datetime(stream.created_us),
            commit_time=None if committed_us is None else to_datetime(committed_us),
            table_schema=table_schema(columns) if with_schema else None,
            write_mode=WriteStream.WriteMode.INSERT,
            location=self._catalog.datasets.get(name.table.dataset_id).location,
        )


def _created_stream(stream_name: str) -> StreamName:
    """The stream that a request names. Raises WriteApiError for a default stream."""
    name = parse_stream(stream_name)
    if name.is_default:
        raise invalid_argument(
            f"The default stream [{name}] is neither flushed nor finalized.", Code.INVALID_STREAM_TYPE, str(name)
        )
    return name
