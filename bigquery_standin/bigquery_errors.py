"""Defines the errors that the stand-in returns, with BigQuery's reasons."""

from __future__ import annotations

# By reason: the HTTP status, and its name in JSON and gRPC. Source: "Error messages" of the BigQuery documentation.
# Only `standInFailed` is not BigQuery's: after some of BigQuery's reasons, clients retry for ten minutes.
STATUS = {
    "accessDenied": (403, "PERMISSION_DENIED"),
    "backendError": (503, "UNAVAILABLE"),
    "conditionNotMet": (412, "FAILED_PRECONDITION"),
    "duplicate": (409, "ALREADY_EXISTS"),
    "internalError": (500, "INTERNAL"),
    "notFound": (404, "NOT_FOUND"),
    "notImplemented": (501, "UNIMPLEMENTED"),
    "quotaExceeded": (403, "RESOURCE_EXHAUSTED"),
    "rateLimitExceeded": (403, "RESOURCE_EXHAUSTED"),
    "standInFailed": (500, "INTERNAL"),
}
_OTHER = (400, "INVALID_ARGUMENT")


class StandInError(Exception):
    """A request or job failed. BigQuery's `reason` decides the HTTP status of the response."""

    reason = "internalError"

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or type(self).reason

    @property
    def http_status(self) -> int:
        return STATUS.get(self.reason, _OTHER)[0]

    @property
    def status_name(self) -> str:
        return STATUS.get(self.reason, _OTHER)[1]


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
