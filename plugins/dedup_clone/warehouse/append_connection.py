"""One connection to the default stream of a table (Storage Write API).

If a connection is refused when it opens, the client library's own class (AppendRowsStream) opens it again. The refused
connection has consumed the first requests, so the class may wait ten minutes for answers to requests that the new
connection never sends. AppendConnection reports each loss at once.
"""

from __future__ import annotations

import os
import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
    from google.cloud.bigquery_storage_v1.types import AppendRowsRequest, AppendRowsResponse

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
