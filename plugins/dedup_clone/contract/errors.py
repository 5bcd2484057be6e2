"""The errors of this project. Each message names what failed, which object, and the operator's next step."""

from __future__ import annotations


class DedupCloneError(Exception):
    """Base class of every error that this project raises itself."""


class ContractViolation(DedupCloneError):
    """A stored record (request, manifest, arrival, CURRENT) does not have the form that its reader expects."""


class LaterRelease(ContractViolation):
    """A later release wrote a stored record in a form that this release does not know."""


class ConfigurationError(DedupCloneError):
    """A feed file or a deployment setting is wrong. The message names file, line and key."""


class DeliveryRefused(DedupCloneError):
    """A delivery breaks the data contract. It is not applied; the message names file, column and count."""


class LeaseHeld(DedupCloneError):
    """The lease is held by another publish, rollback or bootstrap of the feed."""


class FeedHeldElsewhere(DedupCloneError):
    """Another Airflow environment publishes the feed."""


class RollbackRefused(DedupCloneError):
    """A rollback cannot start: another run holds the lease, or the live generation changed after the approval."""


class BootstrapRefused(DedupCloneError):
    """An existing table cannot be taken over, or changed after it was approved. The message says which."""


class LostRace(DedupCloneError):
    """An object or table changed since it was read. A retry reads it again and decides anew."""


class LeaseLost(LostRace):
    """The run's attempt does not hold the lease any more: it has ended, and no retry gets the lease back."""


class CheckFailed(DedupCloneError):
    """A check failed. Before the swap, target keeps its old content."""


class ApprovalTooLate(DedupCloneError):
    """An approved publish lost the lease: another run acquired it while this one waited."""


class OutcomeUnknown(DedupCloneError):
    """It is unknown whether a write happened. Check before repeating it."""


class JobFailed(DedupCloneError):
    """A BigQuery job failed. `message` and `reason` are BigQuery's own."""

    def __init__(self, text: str, *, message: str, reason: str) -> None:
        super().__init__(text)
        self.message = message
        self.reason = reason

    @property
    def is_invalid_input(self) -> bool:
        """Whether the statement or the files are at fault."""
        return self.reason in ("invalid", "invalidQuery")


class SparkUnavailable(DedupCloneError):
    """The service that runs Spark could not be reached or has no capacity now. A retry may succeed."""


class SparkRunFailed(DedupCloneError):
    """A Spark run failed or was cancelled. The message names the run, the reason and the address of its log."""


class FeedsNotChecked(DedupCloneError):
    """The watchdog could not check some feeds. All others were checked."""


class AlertNotSent(DedupCloneError):
    """A notification of an incident could not be delivered."""
