"""Defines the errors that the stand-in returns, with BigQuery's reasons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# HTTP status by reason; of all others it is 400. Source: "Error messages" of the BigQuery documentation. Only
# `standInFailed` is not BigQuery's: after some of BigQuery's reasons, clients retry for ten minutes.
HTTP_STATUS = {
    "accessDenied": 403,
    "backendError": 503,
    "conditionNotMet": 412,
    "duplicate": 409,
    "internalError": 500,
    "notFound": 404,
    "notImplemented": 501,
    "quotaExceeded": 403,
    "rateLimitExceeded": 403,
    "standInFailed": 500,
}


class StandInError(Exception):
    """A request or job failed. BigQuery's `reason` decides the HTTP status of the response."""

    reason = "internalError"

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or type(self).reason

    @property
    def http_status(self) -> int:
        return HTTP_STATUS.get(self.reason, 400)


class InvalidQuery(StandInError):
    """BigQuery does not accept the SQL text, or the query failed while it ran.

    `line`, `column`: where, counted from 1; None if that is not known.
    """

    reason = "invalidQuery"

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message + ("" if line is None or column is None else f" at [{line}:{column}]"))


class NotImplementedConstruct(StandInError):
    """The stand-in does not support `construct`, an SQL construct or API field that BigQuery may support."""

    reason = "notImplemented"

    def __init__(self, construct: str) -> None:
        super().__init__(
            f"The stand-in does not carry out [{construct}]: use a supported construct or run this on BigQuery itself."
        )


class NotFound(StandInError):
    """Something that a request names does not exist, such as a dataset, table, job or object."""

    reason = "notFound"


class AccessDenied(StandInError):
    """The caller lacks a permission on a table, its rows or columns, or on a connection."""

    reason = "accessDenied"


class Duplicate(StandInError):
    """An object of this name exists already."""

    reason = "duplicate"


class Invalid(StandInError):
    """BigQuery does not accept a request field, a schema or a file."""

    reason = "invalid"


@contextmanager
def as_invalid_query() -> Iterator[None]:
    """Raises InvalidQuery for Invalid: the error of a statement that asks for what BigQuery does not accept."""
    try:
        yield
    except Invalid as error:
        raise InvalidQuery(error.message) from error


class BackendError(StandInError):
    """A restart ended the job, or what it needs (the object store, Spark) is not available.

    In BigQuery the reason means an error inside BigQuery. The same request may succeed later.
    """

    reason = "backendError"


class StoppedJob(StandInError):
    """The job was cancelled, or it took too long."""

    reason = "stopped"

    def __init__(self, why: str = "User requested cancellation") -> None:
        super().__init__(f"Job execution was cancelled: {why}")
