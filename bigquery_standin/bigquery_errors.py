"""Defines the errors that the stand-in returns, with BigQuery's reasons."""

from __future__ import annotations

# HTTP status by reason. Source: "Error messages" of the BigQuery documentation; only `standInFailed` is not BigQuery's.
HTTP_STATUS = {
    "accessDenied": 403,
    "backendError": 503,
    "bytesBilledLimitExceeded": 400,
    "conditionNotMet": 412,
    "duplicate": 409,
    "internalError": 500,
    "invalid": 400,
    "invalidQuery": 400,
    "notFound": 404,
    "notImplemented": 501,
    "quotaExceeded": 403,
    "rateLimitExceeded": 403,
    "resourceInUse": 400,
    "resourcesExceeded": 400,
    "standInFailed": 500,
    "stopped": 200,
}


class StandInError(Exception):
    """A request or job failed. Subclasses set BigQuery's `reason`, which decides the HTTP status of the response."""

    reason = "internalError"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def http_status(self) -> int:
        return HTTP_STATUS[self.reason]


class InvalidQuery(StandInError):
    """BigQuery does not accept the SQL text, or the query failed while it ran.

    `line`, `column`: where, counted from 1; None if that is not known.
    """

    reason = "invalidQuery"

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        at = f" at [{line}:{column}]" if line is not None and column is not None else ""
        super().__init__(message + at)
        self.line = line
        self.column = column


class NotImplementedConstruct(StandInError):
    """The stand-in does not support `construct`, an SQL construct or API field that BigQuery may support."""

    reason = "notImplemented"

    def __init__(self, construct: str) -> None:
        super().__init__(
            f"The stand-in does not carry out [{construct}]: use a supported construct or run this on BigQuery itself."
        )
        self.construct = construct


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


class QuotaExceeded(StandInError):
    """A daily or per-job limit is used up."""

    reason = "quotaExceeded"


class RateLimitExceeded(StandInError):
    """Too many requests or changes in a short time. The same request may succeed later."""

    reason = "rateLimitExceeded"


class ConditionNotMet(StandInError):
    """The request's If-Match header is not the object's etag."""

    reason = "conditionNotMet"


class BackendError(StandInError):
    """A restart ended the job, or what it needs (the object store, Spark) is not available.

    In BigQuery the reason means an error inside BigQuery. The same request may succeed later.
    """

    reason = "backendError"


class StoppedJob(StandInError):
    """The job was cancelled, or it took too long."""

    reason = "stopped"


class ResourceInUse(StandInError):
    """A dataset cannot be deleted because it contains tables or routines."""

    reason = "resourceInUse"


class ResourcesExceeded(StandInError):
    """BigQuery would not accept so much work at a time, for example too many waiting DML statements."""

    reason = "resourcesExceeded"


class BytesBilledLimitExceeded(StandInError):
    """The query would bill more than its maximumBytesBilled, so it was ended before it changed anything."""

    reason = "bytesBilledLimitExceeded"


class StandInFailed(StandInError):
    """The stand-in has a bug.

    Its reason is not one of BigQuery's: after some of BigQuery's reasons, clients retry for ten minutes.
    """

    reason = "standInFailed"
