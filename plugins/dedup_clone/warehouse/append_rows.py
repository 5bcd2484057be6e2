"""Appends rows to a table's default stream of the Storage Write API (BigQuery's pages "Storage Write API (gRPC)").

The default stream stores each row at least once. Several requests are sent before the first is acknowledged, and
BigQuery answers in their order. After a lost connection all requests without an answer are sent again.

If a connection is refused when it opens, the client library's own class (AppendRowsStream) opens it again. The refused
connection has consumed the first requests, so the class may wait ten minutes for answers to requests that the new
connection never sends. AppendConnection reports each loss at once.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import JobFailed
from dedup_clone.warehouse.row_messages import RowMessages

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
    from google.cloud.bigquery_storage_v1.types import AppendRowsRequest, AppendRowsResponse

# BigQuery refuses requests of 20 MB (its page "Quotas and limits"). Requests larger than this constant are no faster.
MAX_REQUEST_BYTES = 9_000_000
# Bytes by which each row makes a request longer, besides the bytes of the row.
_ROW_OVERHEAD_BYTES = 6
REQUESTS_IN_FLIGHT = 8
MAX_TRIES = 8
_MAX_PAUSE_S = 30.0
_ERRORS_SHOWN = 3


class RowAppender:
    """Appends rows to one table. Not thread-safe.

    `rows`, `size`, `requests`: how many rows were appended so far, their bytes, and the requests that contain them.
    """

    def __init__(
        self,
        client: BigQueryWriteClient,
        table: str,
        messages: RowMessages,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`table`: projects/P/datasets/D/tables/T. `messages`: converts a row to bytes."""
        self._client, self._messages, self._sleep = client, messages, sleep
        self._stream = f"{table}/streams/_default"
        self._connection: AppendConnection | None = None
        self._unanswered: deque[list[bytes]] = deque()
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._failures = 0
        self.rows = self.size = self.requests = 0

    def append(self, row: Mapping[str, Any], sequence: str) -> None:
        """Append a row, which is sent in one request with others. Raises JobFailed as `finish` does.

        `sequence`: the row's change sequence number (see row_messages.sequence_number).
        """
        message = self._messages.upsert(row, sequence)
        size = len(message) + _ROW_OVERHEAD_BYTES
        if self._batch and self._batch_bytes + size > MAX_REQUEST_BYTES:
            self._send_batch()
        self._batch.append(message)
        self._batch_bytes += size
        self.rows += 1
        self.size += len(message)

    def finish(self) -> None:
        """Return when BigQuery has acknowledged every row.

        Raises JobFailed if BigQuery refused rows, or if MAX_TRIES consecutive tries failed.
        """
        if self._batch:
            self._send_batch()
        while self._unanswered:
            self._await_oldest()

    def close(self) -> None:
        """Close the connection; requests without an answer may have been carried out or not."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _send_batch(self) -> None:
        while len(self._unanswered) >= REQUESTS_IN_FLIGHT:
            self._await_oldest()
        self.requests += 1
        self._unanswered.append(self._batch)
        self._send(self._batch)
        self._batch, self._batch_bytes = [], 0

    def _send(self, rows: list[bytes]) -> None:
        is_first = self._connection is None
        self._connection = self._connection or AppendConnection(self._client, self._stream)
        self._connection.send(self._request(rows, with_schema=is_first))

    def _request(self, rows: list[bytes], *, with_schema: bool) -> AppendRowsRequest:
        """The request with these rows. A connection's first request also has their schema (`with_schema`)."""
        from google.cloud.bigquery_storage_v1 import types

        data = types.AppendRowsRequest.ProtoData(rows=types.ProtoRows(serialized_rows=rows))
        if with_schema:
            data.writer_schema = types.ProtoSchema(proto_descriptor=self._messages.descriptor())
        return types.AppendRowsRequest(write_stream=self._stream, proto_rows=data)

    def _await_oldest(self) -> None:
        """Wait for the oldest answer. If the connection is lost, send again all requests without an answer."""
        error = self._receive()
        if error is None:
            self._unanswered.popleft()
            self._failures = 0
            return
        self._failures += 1
        self.close()
        if not _is_transient(error) or self._failures >= MAX_TRIES:
            raise _job_failed(self._stream, error, self._failures) from error
        self._sleep(min(2.0 ** (self._failures - 1), _MAX_PAUSE_S))
        for rows in self._unanswered:
            self._send(rows)

    def _receive(self) -> Exception | None:
        """Receive the answer to the oldest request: None if BigQuery acknowledged it, otherwise the error."""
        from google.api_core.exceptions import from_grpc_status

        assert self._connection
        try:
            answer = self._connection.receive()
        except Exception as error:
            return error
        if not answer.error.code:
            return None
        refused: Exception = from_grpc_status(  # type: ignore[no-untyped-call]
            answer.error.code, answer.error.message, response=answer
        )
        return refused


def _is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    from google.api_core import exceptions

    transient = (
        *(exceptions.Aborted, exceptions.Cancelled, exceptions.DeadlineExceeded, exceptions.InternalServerError),
        *(exceptions.ResourceExhausted, exceptions.ServiceUnavailable, exceptions.Unknown, ConnectionLost),
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


ANSWER_TIMEOUT_S = 120.0
# The environment variable with the address (host:port) of a server that takes BigQuery's place, without credentials.
ADDRESS_VARIABLE = "BIGQUERY_STORAGE_EMULATOR_HOST"


class ConnectionLost(Exception):
    """The connection ended, or gave no answer in time. Requests without an answer may have been carried out or not."""


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


@dataclass(frozen=True)
class _Answer:
    """An answer; if the connection has ended, `response` is None and `error` says why."""

    response: AppendRowsResponse | None
    error: Exception = field(default_factory=lambda: ConnectionLost("The connection has ended."))


class AppendConnection:
    """Sends requests without waiting, and receives their answers in the same order. A thread of its own reads them."""

    def __init__(self, client: BigQueryWriteClient, stream: str) -> None:
        self._client, self._stream = client, stream
        self._requests: queue.SimpleQueue[AppendRowsRequest | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        threading.Thread(target=self._receive, name="append-rows", daemon=True).start()

    def send(self, request: AppendRowsRequest) -> None:
        """Queue a request, and return at once."""
        self._requests.put(request)

    def receive(self) -> AppendRowsResponse:
        """The next answer. Raises the error that ended the connection.

        Raises ConnectionLost if it ended without an error, or if no answer comes within ANSWER_TIMEOUT_S.
        """
        try:
            result = self._answers.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            raise ConnectionLost(f"No answer came within [{ANSWER_TIMEOUT_S:.0f}] seconds.") from None
        if result.response is None:
            raise result.error
        return result.response

    def close(self) -> None:
        """Send nothing after the queued requests; the connection then ends by itself."""
        self._requests.put(None)

    def _receive(self) -> None:
        # BigQuery finds the location of the table by this header.
        metadata = (("x-goog-request-params", f"write_stream={self._stream}"),)
        try:
            requests = iter(self._requests.get, None)
            for response in self._client.append_rows(requests, retry=None, metadata=metadata):
                self._answers.put(_Answer(response))
        except Exception as error:
            self._answers.put(_Answer(None, error))
        self._answers.put(_Answer(None))
        self.close()
