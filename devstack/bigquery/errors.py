"""The errors that the stand-in answers with: BigQuery's reason and HTTP status, and a message that names the object."""

from __future__ import annotations

from typing import ClassVar


class StandInError(Exception):
    """An answer other than success. `reason` and `http_status` are those that BigQuery documents for it."""

    reason: ClassVar[str] = "internalError"
    http_status: ClassVar[int] = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidQuery(StandInError):
    """The text is not what BigQuery accepts, or running it failed; line and column count from 1."""

    reason = "invalidQuery"
    http_status = 400

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        at = f" at [{line}:{column}]" if line is not None and column is not None else ""
        super().__init__(message + at)
        self.line = line
        self.column = column


class NotImplementedConstruct(StandInError):
    """BigQuery may well accept this; the stand-in does not carry it out and says which construct that is."""

    reason = "notImplemented"
    http_status = 501

    def __init__(self, construct: str) -> None:
        super().__init__(
            f"The stand-in does not carry out [{construct}]: use a supported construct or run this on BigQuery itself."
        )
        self.construct = construct


class NotFound(StandInError):
    """No such project, dataset, table, job or version."""

    reason = "notFound"
    http_status = 404


class Duplicate(StandInError):
    """A thing of this name exists already."""

    reason = "duplicate"
    http_status = 409


class Invalid(StandInError):
    """A request field, a schema or a file that BigQuery refuses."""

    reason = "invalid"
    http_status = 400


class QuotaExceeded(StandInError):
    """A daily or per-table limit is used up."""

    reason = "quotaExceeded"
    http_status = 403


class RateLimitExceeded(StandInError):
    """Too many requests or changes in a short time: the same request may succeed later."""

    reason = "rateLimitExceeded"
    http_status = 403


class ConditionNotMet(StandInError):
    """The If-Match etag of the request is not the object's."""

    reason = "conditionNotMet"
    http_status = 412


class BackendError(StandInError):
    """A fault of the service itself: the same request may succeed later."""

    reason = "backendError"
    http_status = 503


class StoppedJob(StandInError):
    """The job was cancelled before it was done."""

    reason = "stopped"
    http_status = 200
