"""The exceptions of this project. Each message names what failed, which object, and the operator's next step."""

from __future__ import annotations


class DedupCloneError(Exception):
    """Base class of every error that this project raises itself."""


class PermanentError(DedupCloneError):
    """Base class of errors that a retry of the task would meet again."""


class ContractViolation(PermanentError):
    """A stored record (attempt, manifest, arrival, CURRENT) is lost or malformed, or tables or files contradict it."""


class ConfigurationError(PermanentError):
    """A feed file, a deployment setting, an uploaded file or a value in a trigger form is wrong."""


class DeliveryRefused(PermanentError):
    """A delivery breaks the data contract. It is not applied; the message says what is wrong, and where."""


class LeaseHeld(DedupCloneError):
    """Another run of the feed holds the lease."""


class FeedHeldElsewhere(PermanentError):
    """Another Airflow environment publishes the feed."""


class BootstrapRefused(PermanentError):
    """A bootstrap or rebuild cannot take over the table, or not as the form says, or the table changed meanwhile."""


class LostRace(DedupCloneError):
    """An object or table changed since it was read. A retry reads it again and decides anew."""


class LeaseLost(LostRace, PermanentError):
    """The run's attempt no longer holds the lease. The attempt has ended, so no retry can get the lease back."""


class CheckFailed(PermanentError):
    """A check or a content audit failed, or a step would exceed a limit such as the feed's `max_bytes_billed`.

    If a check before the swap fails, the run ends without a swap.
    """


class OutcomeUnknown(DedupCloneError):
    """It is unknown whether a job took effect, or too many jobs of a step failed. The operator must find out why."""


class JobFailed(DedupCloneError):
    """A BigQuery job failed, or BigQuery refused a job or streamed rows.

    `message`: what BigQuery said. `reason`: one of BigQuery's error codes, such as `invalidQuery`.
    """

    def __init__(self, text: str, *, message: str, reason: str) -> None:
        super().__init__(text)
        self.message = message
        self.reason = reason

    @property
    def is_invalid_input(self) -> bool:
        """Whether the statement or the data is at fault, so that a retry would fail again."""
        return self.reason in ("invalid", "invalidQuery")


class SparkUnavailable(DedupCloneError):
    """The service that runs Spark could not be reached or has no capacity now. A retry may succeed."""


class SparkRunFailed(DedupCloneError):
    """A Spark run failed or was cancelled. The message names the run and the reason."""


class FeedsNotChecked(DedupCloneError):
    """The watchdog could not check some feeds, or could not send alerts about some. It has checked all other feeds."""


class AlertNotSent(DedupCloneError):
    """An alert could not be sent to some notifier, or there is no notifier to send a test alert to."""
