"""Appends rows to a table's default stream of the Storage Write API (BigQuery's pages "Storage Write API (gRPC)").

The default stream stores each row at least once. Each connection sends some requests and then receives their answers,
which BigQuery gives in the same order. Requests without an answer are sent again over a new connection.

A default stream cannot be closed to a writer, as a job id can be used up: row changes may use no other stream. So each
connection has a deadline, and first asks whether its writer may still write. CONNECTION_S after the answer has become
no, the writer can send nothing any more, even if it slept meanwhile.

The client library's own class (AppendRowsStream) is not used. If a connection is refused when it opens, the class opens
it again. The refused connection has consumed the first requests, so the class may wait ten minutes for answers to
requests that the new connection never sends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import JobFailed
from dedup_clone.warehouse.row_messages import UPSERT, RowMessages

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
    from google.cloud.bigquery_storage_v1.types import AppendRowsRequest

# BigQuery refuses requests of 20 MB (its page "Quotas and limits"). Requests larger than this constant are no faster.
MAX_REQUEST_BYTES = 9_000_000
# Bytes by which each row makes a request longer, besides the bytes of the row.
_ROW_OVERHEAD_BYTES = 6
REQUESTS_PER_CONNECTION = 8
# How long a connection lasts at most. Its requests need 72 s at 1 MB a second, the lowest speed that BigQuery names.
CONNECTION_S = 120.0
MAX_TRIES = 8
_MAX_PAUSE_S = 30.0
_ERRORS_SHOWN = 3
# The environment variable with the address (host:port) of a server that takes BigQuery's place, without credentials.
ADDRESS_VARIABLE = "BIGQUERY_STORAGE_EMULATOR_HOST"


def open_write_client(credentials: Credentials | None) -> BigQueryWriteClient:
    """A client of the Storage Write API, or of the server that the environment variable names."""
    from google.cloud.bigquery_storage_v1 import BigQueryWriteClient

    address = os.environ.get(ADDRESS_VARIABLE)
    if address is None:
        return BigQueryWriteClient(credentials=credentials)  # type: ignore[no-untyped-call]
    import grpc
    from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport

    transport = BigQueryWriteGrpcTransport(channel=grpc.insecure_channel(address))
    return BigQueryWriteClient(transport=transport)  # type: ignore[no-untyped-call]


class RowAppender:
    """Appends rows to one table. Not thread-safe.

    `rows`, `size`: how many rows were appended so far, and their bytes.
    """

    def __init__(
        self,
        client: BigQueryWriteClient,
        table: str,
        messages: RowMessages,
        require_writer: Callable[[], object],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`table`: projects/P/datasets/D/tables/T. `messages`: converts a row to bytes.

        `require_writer`: raises if this writer may not write any more. `append` and `finish` then raise the same.
        """
        self._client, self._messages, self._require_writer, self._sleep = client, messages, require_writer, sleep
        self._stopped: Exception | None = None
        self._stream = f"{table}/streams/_default"
        self._unanswered: list[list[bytes]] = []
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self.rows = self.size = 0

    def append(self, row: Mapping[str, Any], sequence: str, change_type: str = UPSERT) -> None:
        """Append a row, which is sent in one request with others. Raises JobFailed as `finish` does.

        `sequence`, `change_type`: see row_messages.py.
        """
        message = self._messages.change(row, sequence, change_type)
        size = len(message) + _ROW_OVERHEAD_BYTES
        if self._batch and self._batch_bytes + size > MAX_REQUEST_BYTES:
            self._end_request()
        self._batch.append(message)
        self._batch_bytes += size
        self.rows += 1
        self.size += len(message)

    def finish(self) -> None:
        """Return when BigQuery has acknowledged every row.

        Raises JobFailed if BigQuery refused rows, or if MAX_TRIES consecutive tries failed.
        """
        if self._batch:
            self._end_request()
        self._send()

    def _end_request(self) -> None:
        self._unanswered.append(self._batch)
        self._batch, self._batch_bytes = [], 0
        if len(self._unanswered) == REQUESTS_PER_CONNECTION:
            self._send()

    def _send(self) -> None:
        """Send the requests without an answer, until BigQuery has acknowledged all. Raises JobFailed as `finish`."""
        failures = 0
        while self._unanswered:
            acknowledged, error = self._try_to_send()
            if self._stopped:
                raise self._stopped
            del self._unanswered[:acknowledged]
            if error is None:
                continue
            failures = 1 if acknowledged else failures + 1
            if not _is_transient(error) or failures >= MAX_TRIES:
                raise _job_failed(self._stream, error, failures) from error
            self._sleep(min(2.0 ** (failures - 1), _MAX_PAUSE_S))

    def _try_to_send(self) -> tuple[int, Exception | None]:
        """Send the requests over a new connection. Return how many were acknowledged, and the error that ended it."""
        from google.api_core.exceptions import ServiceUnavailable, from_grpc_status

        acknowledged = 0
        # BigQuery finds the location of the table by this header.
        metadata = (("x-goog-request-params", f"write_stream={self._stream}"),)
        try:
            for answer in self._client.append_rows(
                self._requests(), retry=None, timeout=CONNECTION_S, metadata=metadata
            ):
                if answer.error.code:
                    raise from_grpc_status(  # type: ignore[no-untyped-call]
                        answer.error.code, answer.error.message, response=answer
                    )
                acknowledged += 1
        except Exception as error:
            return acknowledged, error
        if acknowledged < len(self._unanswered):
            return acknowledged, ServiceUnavailable("The connection has ended.")  # type: ignore[no-untyped-call]
        return acknowledged, None

    def _requests(self) -> Iterator[AppendRowsRequest]:
        """The requests without an answer. A connection's first request also has the schema of the rows.

        The client library calls this when the connection has its deadline.
        """
        from google.cloud.bigquery_storage_v1 import types

        try:
            self._require_writer()
        except Exception as error:  # the client library would hide it
            self._stopped = error
            return
        for number, rows in enumerate([*self._unanswered]):
            data = types.AppendRowsRequest.ProtoData(rows=types.ProtoRows(serialized_rows=rows))
            if number == 0:
                data.writer_schema = types.ProtoSchema(proto_descriptor=self._messages.descriptor())
            yield types.AppendRowsRequest(write_stream=self._stream, proto_rows=data)


def _is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    from google.api_core import exceptions

    transient = (
        *(exceptions.Aborted, exceptions.Cancelled, exceptions.DeadlineExceeded, exceptions.InternalServerError),
        *(exceptions.ResourceExhausted, exceptions.ServiceUnavailable, exceptions.Unknown),
    )
    return isinstance(error, transient)


def _job_failed(stream: str, error: Exception, tries: int) -> JobFailed:
    response: Any = getattr(error, "response", None)
    row_errors = list(getattr(response, "row_errors", ()))
    shown = "; ".join(f"row {row_error.index}: {row_error.message}" for row_error in row_errors[:_ERRORS_SHOWN])
    text = f"{getattr(error, 'message', None) or error}{f' ({len(row_errors)} rows: {shown})' if row_errors else ''}"
    return JobFailed(
        f"BigQuery took no rows for [{stream}] after [{tries}] tries: {text}. The generation is not committed. "
        f"Correct what it names, then clear the run from its first task: rows that are sent twice do no harm.",
        message=text,
        reason="backendError" if _is_transient(error) else "invalid",
    )
