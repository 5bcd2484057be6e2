"""Serves the Storage Write API, google.cloud.bigquery.storage.v1.BigQueryWrite, by gRPC."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import grpc
from google.cloud.bigquery_storage_v1 import types
from grpc_status import rpc_status

from bigquery_standin.bigquery_errors import StandInError
from bigquery_standin.faults import FaultRegistry
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.access import user_of
from bigquery_standin.write_api.append_handler import AppendConnection, status_of

THREAD_COUNT = 100  # an open AppendRows connection occupies one
STOP_S = 1.0  # how long requests may still take after `stop`, before gRPC cancels them
# gRPC takes messages larger than append_handler.MAXIMUM_REQUEST_BYTES, so that the stand-in itself refuses too large
# requests: gRPC would end the connection. Without SO_REUSEPORT, two servers cannot bind one port.
_OPTIONS = (("grpc.max_receive_message_length", 64 << 20), ("grpc.so_reuseport", 0))
SERVICE = "google.cloud.bigquery.storage.v1.BigQueryWrite"
Response = TypeVar("Response")
# gRPC statuses by the HTTP status of a fault. BigQuery ends a connection that was idle for too long with ABORTED, which
# stands for 409 here.
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ABORTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}
LOG = logging.getLogger(__name__)


class WriteApiServer:
    """Serves the Storage Write API for a stand-in's tables. `address`: host:port."""

    def __init__(self, stand_in: StandIn, host: str, port: int) -> None:
        """Binds the port; 0 for any free one. Raises RuntimeError if another program uses it."""
        self._server = grpc.server(ThreadPoolExecutor(THREAD_COUNT), options=_OPTIONS)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, _handlers(stand_in)),))
        self.address = f"{host}:{self._server.add_insecure_port(f'{host}:{port}')}"

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        """Ends the connections. Returns when all running requests have ended."""
        self._server.stop(STOP_S).wait()


def _handlers(stand_in: StandIn) -> dict[str, Any]:
    def append_rows(requests: Iterator[Any], context: Any) -> Iterator[Any]:
        try:
            headers = dict(context.invocation_metadata())
            caller = stand_in.caller(user_of(headers.get("authorization")))
            connection = AppendConnection(stand_in.catalog, caller)
            for request in requests:
                yield _with_faults(stand_in.faults, partial(connection.respond, request))
        except StandInError as error:
            context.abort_with_status(rpc_status.to_status(status_of(error)))
        except _EndedByFault as ended:
            context.abort(*ended.args)

    return {
        "AppendRows": grpc.stream_stream_rpc_method_handler(
            append_rows, types.AppendRowsRequest.deserialize, types.AppendRowsResponse.serialize
        )
    }


class _EndedByFault(Exception):
    """A fault ends the connection with a gRPC status and a message."""


def _with_faults(faults: FaultRegistry, respond: Callable[[], Response]) -> Response:
    """The response. Raises _EndedByFault if an active fault demands it; its `path` is that of the gRPC method."""
    fault = faults.match_request("POST", f"/{SERVICE}/AppendRows")
    if fault is None:
        return respond()
    if fault.effect == "delay":
        time.sleep(fault.seconds or 0)
        return respond()
    if fault.effect == "lost_reply":
        respond()
        raise _EndedByFault(grpc.StatusCode.UNAVAILABLE, "The connection was closed before the answer.")
    status = 429 if fault.effect == "quota" else fault.status
    raise _EndedByFault(_CODES.get(status, grpc.StatusCode.UNKNOWN), fault.message)
