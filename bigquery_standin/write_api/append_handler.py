"""Handles one AppendRows connection: writes the rows of each request, and responds to the requests in order.

Sources: "Overview of the Storage Write API"; RPC reference, AppendRowsRequest and AppendRowsResponse.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
import pyarrow as pa
from google.cloud.bigquery_storage_v1.types import (
    AppendRowsRequest,
    AppendRowsResponse,
    RowError,
    TableFieldSchema,
    TableSchema,
)
from google.protobuf.message import Message

from bigquery_standin.bigquery_errors import NotImplementedConstruct, StandInError
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.storage.arrow_schema import arrow_schema, conform
from bigquery_standin.storage.callers import Caller
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.change_log import InvalidRows, RowChange, append_changes, are_row_changes
from bigquery_standin.storage.model import BufferedRows, TableId, TableSettings, TableVersion
from bigquery_standin.storage.segment_store import SegmentBatch
from bigquery_standin.storage.streaming_buffer import check_day, stream_rows
from bigquery_standin.write_api.storage_errors import RowsRefused, WriteApiError, invalid_argument, write_api_error
from bigquery_standin.write_api.writer_schema import RowReader, WrittenRow, message_class

MAXIMUM_REQUEST_BYTES = 20_000_000
_TYPES = {"FLOAT64": "DOUBLE"}  # the only type with another name in this API than in SQL
DEFAULT_STREAM = "_default"
_STREAM_NAME = re.compile(rf"projects/([^/]+)/datasets/([^/]+)/tables/([^/]+)/(?:streams/([^/]+)|{DEFAULT_STREAM})")
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamName:
    """The name of a write stream: its table, and its id within the table."""

    table: TableId
    id: str

    @property
    def is_default(self) -> bool:
        return self.id == DEFAULT_STREAM

    def __str__(self) -> str:
        table = self.table
        return f"projects/{table.project}/datasets/{table.dataset}/tables/{table.table}/streams/{self.id}"


@dataclass
class _Destination:
    """A stream to which the connection writes. `row_class`: the message class of the writer's schema.

    `columns`: the table's schema at the last request. `reader`: reads rows of `row_class`; None before its first
    use.
    """

    stream: StreamName
    row_class: type[Message]
    columns: tuple[TableField, ...]
    reader: RowReader | None = None

    def reader_for(self, columns: tuple[TableField, ...]) -> RowReader:
        if self.reader is None or columns != self.columns:
            self.reader = RowReader(self.row_class, columns, str(self.stream))
        return self.reader


class AppendConnection:
    """The state of one connection. One thread uses it."""

    def __init__(self, catalog: Catalog, caller: Caller) -> None:
        self._catalog = catalog
        self._caller = caller
        # Whether the rows of this connection are row changes (change data capture); None before the first request.
        self._has_row_changes: bool | None = None
        self._destinations: dict[str, _Destination] = {}
        self._current: _Destination | None = None

    def respond(self, request: AppendRowsRequest) -> AppendRowsResponse:
        """The response to a request.

        Raises WriteApiError, which ends the connection, if the connection's first request names no existing stream, has
        rows in the Arrow format, or has no valid writer_schema. A later request with such an error, or for a stream to
        which this connection cannot write, gets a response with the error. Only the first request for each stream needs
        a writer_schema.
        """
        try:
            destination = self._select_destination(request)
        except WriteApiError as error:
            if self._current is None:
                raise
            return _error_response(request.write_stream, error)
        name = str(destination.stream)
        columns_before = destination.columns
        try:
            _check_request(request)
            self._append(destination, request)
            response = AppendRowsResponse(append_result=AppendRowsResponse.AppendResult(), write_stream=name)
        except WriteApiError as error:
            response = _error_response(name, error)
        except StandInError as error:
            response = _error_response(name, write_api_error(error, name))
        except Exception as error:
            LOG.exception("A request failed inside the stand-in.")
            response = _error_response(
                name, WriteApiError(grpc.StatusCode.INTERNAL, f"The stand-in failed: {error!r}.")
            )
        if destination.columns != columns_before:
            response.updated_schema = table_schema(destination.columns)
        return response

    def _select_destination(self, request: AppendRowsRequest) -> _Destination:
        """Makes the request's stream the current one. A request that names no stream is for the current stream.

        Raises WriteApiError for the wrong requests that `respond` describes.
        """
        name = request.write_stream
        if not name:
            if self._current is None or len(self._destinations) > 1:
                raise invalid_argument(
                    "The request names no write_stream: the first request of a connection must, and every request once "
                    "the connection has written to another stream."
                )
            name = str(self._current.stream)
        try:
            stream = parse_stream(name)
            if not stream.is_default:
                raise NotImplementedConstruct(f"the stream {stream}, which is not a default stream")
            columns = self._catalog.get(stream.table).settings.schema
        except StandInError as error:
            raise write_api_error(error, name) from error
        destination = self._destinations.get(str(stream))
        message = AppendRowsRequest.pb(request)
        if message.HasField("arrow_rows"):
            raise write_api_error(NotImplementedConstruct("rows in the Arrow format"), name)
        if message.proto_rows.HasField("writer_schema"):
            descriptor = message.proto_rows.writer_schema.proto_descriptor
            destination = _Destination(stream, message_class(descriptor), columns)
        elif destination is None:
            raise invalid_argument(f"The first request for [{stream}] has no writer_schema: send it.", entity=name)
        self._destinations[str(stream)] = self._current = destination
        return destination

    def _append(self, destination: _Destination, request: AppendRowsRequest) -> None:
        """Writes the rows."""
        message = AppendRowsRequest.pb(request)
        serialized = message.proto_rows.rows.serialized_rows
        table = destination.stream.table

        def read(settings: TableSettings, now_us: int) -> pa.Table:
            values = [row.values for row in self._read(destination, settings, serialized, now_us)]
            return conform(pa.Table.from_pylist(values, schema=arrow_schema(settings.schema)), settings.schema)

        if message.HasField("offset"):
            raise invalid_argument("The default stream takes no offset: leave it out.")
        settings = self._catalog.get(table).settings
        rows: list[WrittenRow] = []
        if destination.reader_for(settings.schema).may_have_changes:
            rows = self._read(destination, settings, serialized, self._catalog.clock.now_us())
        self._has_row_changes = are_row_changes([row.change_type for row in rows] or [None], self._has_row_changes)
        if self._has_row_changes:
            self._append_changes(table, rows)
            return

        def make(version: TableVersion, commit_us: int, batch: SegmentBatch) -> Sequence[BufferedRows]:
            return [BufferedRows(batch.write(read(version.settings, commit_us)), commit_us)]

        stream_rows(self._catalog, table, make)

    def _append_changes(self, table: TableId, rows: Sequence[WrittenRow]) -> None:
        changes = [RowChange(row.change_type or "", row.sequence_number, row.values) for row in rows]
        try:
            append_changes(self._catalog, self._caller, table, changes)
        except InvalidRows as error:
            raise RowsRefused([_row_error(index, text) for index, text in error.rows.items()]) from error

    def _read(
        self, destination: _Destination, settings: TableSettings, serialized: Sequence[bytes], now_us: int
    ) -> list[WrittenRow]:
        reader = destination.reader_for(settings.schema)
        destination.columns = settings.schema
        return reader.read(serialized, lambda row: check_day(settings, row, now_us))


def _check_request(request: AppendRowsRequest) -> None:
    size = AppendRowsRequest.pb(request).ByteSize()
    if size >= MAXIMUM_REQUEST_BYTES:
        raise invalid_argument(
            f"The request has [{size}] bytes, allowed are fewer than [{MAXIMUM_REQUEST_BYTES}]: send fewer rows."
        )
    unspecified = AppendRowsRequest.MissingValueInterpretation.MISSING_VALUE_INTERPRETATION_UNSPECIFIED
    if unspecified in request.missing_value_interpretations.values():
        raise invalid_argument("A missing value has the interpretation UNSPECIFIED: use NULL_VALUE or DEFAULT_VALUE.")
    if not AppendRowsRequest.pb(request).proto_rows.rows.serialized_rows:
        raise invalid_argument("The request has no rows.")


def _row_error(index: int, message: str) -> RowError:
    return RowError(index=index, code=RowError.RowErrorCode.FIELDS_ERROR, message=message)


def _error_response(stream: str, error: WriteApiError) -> AppendRowsResponse:
    row_errors = error.row_errors if isinstance(error, RowsRefused) else ()
    return AppendRowsResponse(error=error.status(), write_stream=stream, row_errors=row_errors)


def table_schema(columns: Sequence[TableField]) -> TableSchema:
    return TableSchema(fields=[_field(column) for column in columns])


def _field(column: TableField) -> TableFieldSchema:
    return TableFieldSchema(
        name=column.name,
        type_=getattr(TableFieldSchema.Type, _TYPES.get(column.type, column.type)),
        mode=getattr(TableFieldSchema.Mode, column.mode),
        fields=[_field(child) for child in column.fields],
        description=column.description or "",
    )


def parse_stream(name: str) -> StreamName:
    """The stream that a request names.

    Raises WriteApiError if this is not the name of a stream, NotImplementedConstruct for a partition decorator.
    """
    match = _STREAM_NAME.fullmatch(name)
    if match is None:
        raise invalid_argument(f"Stream is [{name}], expected [projects/P/datasets/D/tables/T/streams/S].")
    project, dataset, table, stream = match.groups()
    if "$" in table:
        raise NotImplementedConstruct(f"streaming into the partition {table}")
    return StreamName(TableId(project, dataset, table), stream or DEFAULT_STREAM)
