"""Serves the Storage Write API, google.cloud.bigquery.storage.v1.BigQueryWrite, by gRPC: AppendRows to default streams.

Sources: "Overview of the Storage Write API"; RPC reference, AppendRowsRequest and AppendRowsResponse.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
from google.cloud.bigquery_storage_v1.types import AppendRowsRequest, AppendRowsResponse, RowError
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct, StandInError
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.access import Caller, user_of
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import TableId, TableSettings
from bigquery_standin.storage.segment_store import arrow_schema, conform
from bigquery_standin.storage.streamed_rows import (
    InvalidRows,
    WrittenRow,
    append_changes,
    are_row_changes,
    stream_rows,
)
from bigquery_standin.write_api.writer_schema import RowReader, message_class

THREAD_COUNT = 100  # an open AppendRows connection occupies one
STOP_S = 1.0  # how long requests may still take after `stop`, before gRPC cancels them
MAXIMUM_REQUEST_BYTES = 20_000_000
# gRPC takes messages larger than MAXIMUM_REQUEST_BYTES, so that the stand-in itself refuses too large requests: gRPC
# would end the connection. Without SO_REUSEPORT, two servers cannot bind one port.
_OPTIONS = (("grpc.max_receive_message_length", 64 << 20), ("grpc.so_reuseport", 0))
SERVICE = "google.cloud.bigquery.storage.v1.BigQueryWrite"
_STREAM_NAME = re.compile(r"projects/([^/]+)/datasets/([^/]+)/tables/([^/]+)/(?:streams/)?_default")
LOG = logging.getLogger(__name__)


class WriteApiServer:
    """Serves the Storage Write API for a stand-in's tables. `address`: host:port."""

    def __init__(self, stand_in: StandIn, host: str, port: int) -> None:
        """Binds the port; 0 for any free one. Raises RuntimeError if another program uses it."""

        def append_rows(requests: Iterator[Any], context: Any) -> Iterator[Any]:
            headers = dict(context.invocation_metadata())
            connection = _Connection(stand_in.catalog, stand_in.caller(user_of(headers.get("authorization"))))
            try:
                yield from map(connection.respond, requests)
            except StandInError as error:
                context.abort_with_status(rpc_status.to_status(_status(error)))

        handler = grpc.stream_stream_rpc_method_handler(
            append_rows, AppendRowsRequest.deserialize, AppendRowsResponse.serialize
        )
        self._server = grpc.server(ThreadPoolExecutor(THREAD_COUNT), options=_OPTIONS)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"AppendRows": handler}),))
        self.address = f"{host}:{self._server.add_insecure_port(f'{host}:{port}')}"

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        """Ends the connections. Returns when all running requests have ended."""
        self._server.stop(STOP_S).wait()


def _status(error: StandInError) -> Status:
    return Status(code=grpc.StatusCode[error.status_name].value[0], message=error.message)


class _Connection:
    """One AppendRows connection, which writes to the default stream of one table. One thread uses it."""

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
        return AppendRowsResponse(error=_status(error), write_stream=self._stream, row_errors=row_errors)

    def _append(self, message: Any) -> None:
        if message.write_stream not in ("", self._stream):
            raise NotImplementedConstruct(f"another stream [{message.write_stream}] in a connection")
        _check_request(message)
        table = _table_of(self._stream)
        rows = self._read(self._catalog.get(table).settings, message)
        self._has_row_changes = are_row_changes([row.change_type for row in rows], self._has_row_changes)
        if self._has_row_changes:
            append_changes(self._catalog, self._caller, table, rows)
            return

        def stored(settings: TableSettings) -> pa.Table:
            """Reads the rows again, because another request may have changed the table's schema."""
            values = [row.values for row in self._read(settings, message)]
            return conform(pa.Table.from_pylist(values, schema=arrow_schema(settings.schema)), settings.schema)

        stream_rows(self._catalog, table, stored)

    def _read(self, settings: TableSettings, message: Any) -> Sequence[WrittenRow]:
        assert self._row_class is not None  # `_read_schema` has set it
        return RowReader(self._row_class, settings.schema).read(message.proto_rows.rows.serialized_rows)


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
    if match is None or "$" in match[3]:
        raise NotImplementedConstruct(
            f"the stream [{stream}], expected projects/P/datasets/D/tables/T/streams/_default"
        )
    return TableId(*match.groups())
