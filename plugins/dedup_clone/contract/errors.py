"""The error hierarchy. Each message names what failed, which object, and the operator's next step."""

from __future__ import annotations


class DedupCloneError(Exception):
    """Base of every error that this project raises on purpose."""


class ContractViolation(DedupCloneError):
    """A record between two parts (request, manifest, arrival, CURRENT) is not of the form that was agreed."""


class ConfigurationError(DedupCloneError):
    """A feed file or a deployment setting is wrong: names file, line and key."""


class DeliveryRefused(DedupCloneError):
    """A delivery breaks the data contract: it is set aside, nothing changed. Names file, column and count."""


class LeaseHeld(DedupCloneError):
    """Another publish, rollback or bootstrap of the feed is under way."""


class RollbackRefused(DedupCloneError):
    """A rollback while another run is at work, or one that was approved when another generation was live."""


class BootstrapRefused(DedupCloneError):
    """An existing table cannot be taken over as it is, or changed meanwhile: says what is in the way."""


class LostRace(DedupCloneError):
    """Somebody else changed CURRENT or STAGING since it was read: reread, then decide again."""


class CheckFailed(DedupCloneError):
    """A check before or after the swap failed: before it, target keeps its old content."""


class ApprovalTooLate(DedupCloneError):
    """What was approved can no longer be published: another run took the lease while this one waited."""


class OutcomeUnknown(DedupCloneError):
    """Nobody can tell whether the write happened: look before doing it again."""


class JobFailed(DedupCloneError):
    """A BigQuery job failed. `message` is BigQuery's; `by_content` means that trying again cannot mend it."""

    def __init__(self, text: str, *, message: str, by_content: bool) -> None:
        super().__init__(text)
        self.message = message
        self.by_content = by_content


class SparkUnavailable(DedupCloneError):
    """The service that runs Spark could not be reached or has no room now: trying again may mend it."""


class SparkRunFailed(DedupCloneError):
    """A Spark run failed or was cancelled. Names the run, what was said of it, and where its log is."""


class AlertNotSent(DedupCloneError):
    """Somebody who is to be told of an incident could not be reached."""
