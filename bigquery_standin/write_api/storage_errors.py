"""Defines the errors of the Storage Write API: a gRPC status and, where the API defines one, a StorageError in it."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from google.cloud.bigquery_storage_v1.types import RowError, StorageError
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.status_pb2 import Status

from bigquery_standin.bigquery_errors import NotFound, StandInError

Code = StorageError.StorageErrorCode

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


class WriteApiError(Exception):
    """A request failed. `code`: the gRPC status.

    `storage_code`, `entity`: the code of the StorageError, and the stream or table that it names. If
    `storage_code` is None, the error has no StorageError.
    """

    def __init__(self, code: grpc.StatusCode, message: str, storage_code: int | None = None, entity: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.storage_code = storage_code
        self.entity = entity

    def storage_error(self) -> StorageError:
        return StorageError(code=self.storage_code, entity=self.entity, error_message=self.message)

    def status(self) -> Status:
        status = Status(code=self.code.value[0], message=self.message)
        if self.storage_code is not None:
            detail = AnyMessage()
            detail.Pack(StorageError.pb(self.storage_error()))
            status.details.append(detail)
        return status


class RowsRefused(WriteApiError):
    """Some rows of a request are wrong, so none of them is written."""

    def __init__(self, row_errors: Sequence[RowError]) -> None:
        super().__init__(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"Errors found while processing rows. Please refer to the row_errors field for details. "
            f"Wrong rows: [{len(row_errors)}]; remove or correct them and send the request again.",
        )
        self.row_errors = row_errors


def invalid_argument(message: str, storage_code: int | None = None, entity: str = "") -> WriteApiError:
    return WriteApiError(grpc.StatusCode.INVALID_ARGUMENT, message, storage_code, entity)


def write_api_error(error: StandInError, entity: str) -> WriteApiError:
    """The error as the Storage Write API returns it. `entity`: the stream or table of the request."""
    code = _STATUS_CODES.get(error.reason, grpc.StatusCode.INTERNAL)
    return WriteApiError(code, error.message, Code.TABLE_NOT_FOUND if isinstance(error, NotFound) else None, entity)
