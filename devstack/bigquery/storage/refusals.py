"""BigQuery's further refusal reasons, which only the storage and the jobs give."""

from __future__ import annotations

from devstack.bigquery.errors import StandInError


class ResourceInUse(StandInError):
    """A dataset that still holds tables."""

    reason = "resourceInUse"
    http_status = 400


class ResourcesExceeded(StandInError):
    """The work is more than BigQuery takes on at a time."""

    reason = "resourcesExceeded"
    http_status = 400


class StandInFailed(StandInError):
    """A defect of the stand-in itself. BigQuery's reasons for that are retried by its clients for ten minutes."""

    reason = "standInFailed"
    http_status = 500


class BytesBilledLimitExceeded(StandInError):
    """The query would bill more than its maximumBytesBilled; nothing was run."""

    reason = "bytesBilledLimitExceeded"
    http_status = 400
