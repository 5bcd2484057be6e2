"""Handles one AppendRows connection: writes the rows of each request, and responds to the requests in order.

A connection writes to the default stream of one table. Sources: "Overview of the Storage Write API"; RPC reference,
AppendRowsRequest and AppendRowsResponse.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

import grpc
import pyarrow as pa
from google.cloud.bigquery_storage_v1.types import AppendRowsRequest, AppendRowsResponse, RowError
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct, StandInError
from bigquery_standin.storage.access import Caller
from bigquery_standin.storage.arrow_schema import arrow_schema, conform
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.change_log import InvalidRows, WrittenRow, append_changes, are_row_changes
from bigquery_standin.storage.model import BufferedRows, TableId, TableSettings, TableVersion
from bigquery_standin.storage.segment_store import SegmentBatch
from bigquery_standin.storage.streaming_buffer import check_day, stream_rows
from bigquery_standin.write_api.writer_schema import RowReader, message_class

MAXIMUM_REQUEST_BYTES = 20_000_000
_STREAM_NAME = re.compile(r"projects/([^/]+)/datasets/([^/]+)/tables/([^/]+)/(?:streams/)?_default")
# The gRPC status by the reason of a StandInError. For all other reasons it is INTERNAL.
_STATUS_CODES = {
    "accessDenied": grpc.StatusCode.PERMISSION_DENIED,
    "invalid": grpc.StatusCode.INVALID_ARGUMENT,
    "invalidQuery": grpc.StatusCode.INVALID_ARGUMENT,
    "notFound": grpc.StatusCode.NOT_FOUND,
    "notImplemented": grpc.StatusCode.UNIMPLEMENTED,
    "quotaExceeded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "rateLimitExceeded": grpc.StatusCode.RESOURCE_EXHAUSTED,
}
LOG = logging.getLogger(__name__)


def status_of(error: StandInError) -> Status:
    """The error as the Storage Write API returns it."""
    code = _STATUS_CODES.get(error.reason, grpc.StatusCode.INTERNAL)
    return Status(code=code.value[0], message=error.message)


class AppendConnection:
    """The state of one connection. One thread uses it."""

    def __init__(self, catalog: Catalog, caller: Caller) -> None:
        self._catalog = catalog
        self._caller = caller
        self._stream = ""  # its name; empty before the first request
        # Whether the rows of this connection are row changes (change data capture); None before the first request.
        self._has_row_changes: bool | None = None
        self._row_class: type[Message] | None = None

    def respond(self, request: AppendRowsRequest) -> AppendRowsResponse:
        """The response to a request.

        Raises StandInError, which ends the connection, if its first request names no stream that it can write to, or
        has no valid writer_schema. A later wrong request gets a response with the error.
        """
        message = AppendRowsRequest.pb(request)
        is_first = not self._stream
        if is_first:
            self._catalog.get(_table_of(message.write_stream))
            self._read_schema(message)
            self._stream = message.write_stream
        try:
            if not is_first:
                self._read_schema(message)
            self._append(message)
        except StandInError as error:
            return self._refusal(error)
        except Exception as error:
            LOG.exception("A request failed inside the stand-in.")
            return self._refusal(StandInError(f"The stand-in failed: {error!r}.", "standInFailed"))
        return AppendRowsResponse(append_result=AppendRowsResponse.AppendResult(), write_stream=self._stream)

    def _read_schema(self, message: Any) -> None:
        """Takes over the writer's schema, which the first request must have, and further ones may have."""
        if message.HasField("arrow_rows"):
            raise NotImplementedConstruct("rows in the Arrow format")
        if message.proto_rows.HasField("writer_schema"):
            self._row_class = message_class(message.proto_rows.writer_schema.proto_descriptor)
        elif self._row_class is None:
            raise Invalid(f"The first request for [{message.write_stream}] has no writer_schema: send it.")

    def _refusal(self, error: StandInError) -> AppendRowsResponse:
        wrong = error.rows if isinstance(error, InvalidRows) else {}
        code = RowError.RowErrorCode.FIELDS_ERROR
        row_errors = [RowError(index=index, code=code, message=text) for index, text in wrong.items()]
        return AppendRowsResponse(error=status_of(error), write_stream=self._stream, row_errors=row_errors)

    def _append(self, message: Any) -> None:
        """Writes the rows."""
        if message.write_stream not in ("", self._stream):
            raise NotImplementedConstruct(f"another stream [{message.write_stream}] in a connection")
        _check_request(message)
        table = _table_of(self._stream)
        settings = self._catalog.get(table).settings
        rows = self._read(settings, message, self._catalog.clock.now_us())
        self._has_row_changes = are_row_changes([row.change_type for row in rows], self._has_row_changes)
        if self._has_row_changes:
            append_changes(self._catalog, self._caller, table, rows)
            return

        def make(version: TableVersion, commit_us: int, batch: SegmentBatch) -> Sequence[BufferedRows]:
            schema, current = version.settings.schema, rows
            if schema != settings.schema:
                current = self._read(version.settings, message, commit_us)
            stored = pa.Table.from_pylist([row.values for row in current], schema=arrow_schema(schema))
            return [BufferedRows(batch.write(conform(stored, schema)), commit_us)]

        stream_rows(self._catalog, table, make)

    def _read(self, settings: TableSettings, message: Any, now_us: int) -> list[WrittenRow]:
        assert self._row_class is not None  # `_read_schema` has set it
        reader = RowReader(self._row_class, settings.schema)
        return reader.read(message.proto_rows.rows.serialized_rows, lambda row: check_day(settings, row, now_us))


def _check_request(message: Any) -> None:
    if message.ByteSize() >= MAXIMUM_REQUEST_BYTES:
        raise Invalid(
            f"The request has [{message.ByteSize()}] bytes, allowed are fewer than [{MAXIMUM_REQUEST_BYTES}]: send "
            "fewer rows."
        )
    if message.missing_value_interpretations or message.default_missing_value_interpretation:
        raise NotImplementedConstruct("interpretations of missing values")
    if message.HasField("offset"):
        raise Invalid("The default stream takes no offset: leave it out.")
    if not message.proto_rows.rows.serialized_rows:
        raise Invalid("The request has no rows.")


def _table_of(stream: str) -> TableId:
    """The table to whose default stream a request writes."""
    match = _STREAM_NAME.fullmatch(stream)
    if match is None:
        raise NotImplementedConstruct(
            f"the stream [{stream}], expected projects/P/datasets/D/tables/T/streams/_default"
        )
    table = TableId(*match.groups())
    if "$" in table.table:
        raise NotImplementedConstruct(f"streaming into the partition {table.table}")
    return table
