"""An incident: something that readers or operators must know of, from when on, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    """Every kind has a heading of the same name in docs/runbook.md."""

    ARRIVAL_OVERDUE = "arrival_overdue"
    PROMISE_AT_RISK = "promise_at_risk"
    PROMISE_MISSED = "promise_missed"
    REPLAY_LATE = "replay_late"
    TARGET_TOO_OLD = "target_too_old"
    WATCH_PAUSED = "watch_paused"
    WATCH_FAILING = "watch_failing"
    WATCH_IDLE = "watch_idle"
    PUBLISH_PAUSED = "publish_paused"
    TARGET_DRIFT = "target_drift"
    TARGET_MATERIALIZED_VIEW = "target_materialized_view"
    LEASE_HELD = "lease_held"
    DELIVERY_REFUSED = "delivery_refused"
    MARKER_MISNAMED = "marker_misnamed"
    CONTENT_UNEQUAL = "content_unequal"


class Severity(StrEnum):
    """`warning`: readers notice nothing yet."""

    WARNING = "warning"
    ALERT = "alert"


# While the second is an incident, the first says nothing more: neither that it exists nor that it has ended.
WORSE = {Kind.PROMISE_AT_RISK: Kind.PROMISE_MISSED}


@dataclass(frozen=True)
class Incident:
    """What is wrong now. Incidents of one kind with different subjects (deliveries, say) are told apart.

    `readers_see` is what a query of target answers meanwhile.
    """

    kind: Kind
    severity: Severity
    since: datetime
    what: str
    readers_see: str
    next_step: str
    subject: str = ""

    @property
    def name(self) -> str:
        """Names the incident's record."""
        return f"{self.kind}-{self.subject}" if self.subject else str(self.kind)
