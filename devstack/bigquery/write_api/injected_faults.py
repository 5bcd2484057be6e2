"""Applies the registered faults (`devstack/bigquery/faults.py`) to requests of the Storage Write API.

A fault's `path` is matched with the path of the gRPC method: `/google.cloud.bigquery.storage.v1.BigQueryWrite/METHOD`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import grpc

from devstack.bigquery.faults import FaultRegistry
from devstack.bigquery.write_api.storage_errors import WriteApiError

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


def with_faults(faults: FaultRegistry, method: str, carry_out: Callable[[], Response]) -> Response:
    """The response that `carry_out` makes. Raises WriteApiError if an active fault demands it.

    The error ends an AppendRows connection. `method`: the gRPC method's name, such as `AppendRows`.
    """
    fault = faults.match_request("POST", f"/{SERVICE}/{method}")
    if fault is None:
        return carry_out()
    if fault.effect == "delay":
        time.sleep(fault.seconds or 0)
        return carry_out()
    if fault.effect == "lost_reply":
        carry_out()
        raise WriteApiError(grpc.StatusCode.UNAVAILABLE, "The connection was closed before the answer.")
    status = 429 if fault.effect == "quota" else fault.status
    raise WriteApiError(_CODES.get(status, grpc.StatusCode.UNKNOWN), fault.message)
