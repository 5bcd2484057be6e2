"""Makes an alert, and incidents, like those of the watchdog, for tests of notifiers."""

from __future__ import annotations

from dedup_clone.freshness.incident import Alert, Incident, IncidentKind, Moment, Severity
from tests.shared.freshness_states import NOW

BEGAN = Alert(
    incident="promise_missed",
    feed="sales",
    kind=IncidentKind.SLA_MISSED,
    severity=Severity.ALERT,
    moment=Moment.BEGAN,
    what="snapshot 8 <b>is</b> not live.",
    since=NOW,
    ended_at=None,
    readers_see="snapshot 7",
    next_step="open the run.",
    runbook="https://host/runbook.md#promise_missed",
    link="https://airflow/dags/sales_publish",
)


def incident(kind: IncidentKind = IncidentKind.ARRIVAL_OVERDUE, subject: str = "") -> Incident:
    return Incident(kind, Severity.ALERT, NOW, "what", "readers", "next.", subject)
