"""Defines an incident (what is wrong with a feed, since when) and the alert that is sent about it."""

from __future__ import annotations

import html
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dedup_clone.freshness.durations import format_duration, format_time


class IncidentKind(StrEnum):
    """The kinds of incidents. Their values are stored; docs/runbook.md has an entry for each."""

    ARRIVAL_OVERDUE = "arrival_overdue"
    SLA_AT_RISK = "sla_at_risk"
    SLA_MISSED = "sla_missed"
    TARGET_TOO_OLD = "target_too_old"
    FEED_FILE_INVALID = "feed_file_invalid"
    FEED_NOT_CHECKED = "feed_not_checked"
    WATCH_PAUSED = "watch_paused"
    WATCH_FAILING = "watch_failing"
    WATCH_IDLE = "watch_idle"
    PUBLISH_PAUSED = "publish_paused"
    PUBLISH_FAILED = "publish_failed"
    RECORDS_LOST = "records_lost"
    CHECKS_FAILED_AFTER_SWAP = "checks_failed_after_swap"
    TARGET_DRIFT = "target_drift"
    TARGET_MATERIALIZED_VIEW = "target_materialized_view"
    LEASE_HELD = "lease_held"
    JOB_PENDING = "job_pending"
    DELIVERY_REFUSED = "delivery_refused"
    DELIVERY_HELD = "delivery_held"
    INVALID_MARKER = "invalid_marker"
    CONTENT_UNEQUAL = "content_unequal"
    ROWS_NOT_LOADED = "rows_not_loaded"
    ALERT_TEST = "alert_test"


class Severity(StrEnum):
    """WARNING: readers are not affected yet. ALERT: readers are affected, or the feed does not work."""

    WARNING = "warning"
    ALERT = "alert"


# A sentence in `what` of an SLA incident whose publish failed a check before the swap. The alert's title says so too.
STOPPED_BY_CHECK = "A check stopped the publish"
# The warning on the left becomes the alert on the right. The warning's record is removed without a recovery message.
ESCALATES_TO = {IncidentKind.SLA_AT_RISK: IncidentKind.SLA_MISSED}


@dataclass(frozen=True)
class Incident:
    """Something that is wrong with a feed. `subject` (such as a delivery) separates incidents of the same kind.

    `readers_see` is what a query of target returns meanwhile. `dag_id`, `run_id`: the DAG or the run that a person must
    see to, if there is one.
    """

    kind: IncidentKind
    severity: Severity
    since: datetime
    what: str
    readers_see: str
    next_step: str
    subject: str = ""
    dag_id: str = ""
    run_id: str = ""

    @property
    def name(self) -> str:
        """The name of the incident's record."""
        return f"{self.kind}-{self.subject}" if self.subject else str(self.kind)


class Moment(StrEnum):
    """Whether an alert says that its incident began, or that it ended."""

    BEGAN = "began"
    ENDED = "ended"


@dataclass(frozen=True)
class Alert:
    """The message about one incident. Templates of notifiers in the profile can use its fields and properties.

    `incident` is the name of the incident. `runbook` and `link` (to the DAG or run in Airflow) are URLs. `ended_at` is
    None while the incident is open.
    """

    feed: str
    incident: str
    kind: IncidentKind
    severity: Severity
    moment: Moment
    what: str
    since: datetime
    ended_at: datetime | None
    readers_see: str
    next_step: str
    runbook: str
    link: str

    @property
    def dedup_key(self) -> str:
        """A key that all messages about one problem share, by which a receiver groups them and closes the problem.

        A warning and the alert that it becomes are one problem: only the end of the alert is reported.
        """
        escalated = ESCALATES_TO.get(self.kind)
        return f"dedup-clone/{self.feed}/{self.incident if escalated is None else escalated}"

    @property
    def event_action(self) -> str:
        """`trigger` when the incident begins, `resolve` when it ends: PagerDuty's words."""
        return "trigger" if self.ended_at is None else "resolve"

    @property
    def title(self) -> str:
        stopped = "a check stopped the publish, " if STOPPED_BY_CHECK in self.what else ""
        return f"[{self.feed}] {'RECOVERED' if self.ended_at else str(self.severity).upper()}: {stopped}{self.kind}"

    @property
    def text(self) -> str:
        """The whole message as a few lines of plain text."""
        lines = [self.title, f"{'What' if self.ended_at is None else 'Was'}: {self.what}"]
        if self.ended_at is None:
            lines += [
                f"Since: {format_time(self.since)}",
                f"Readers see: {self.readers_see}",
                f"Next: {self.next_step}",
            ]
        else:
            lasted = format_duration(self.ended_at - self.since)
            lines += [
                f"Lasted: {format_time(self.since)} to {format_time(self.ended_at)} ({lasted})",
                f"Readers see: {self.readers_see}",
                "Next: nothing.",
            ]
        return "\n".join([*lines, f"Runbook: {self.runbook}", f"Airflow: {self.link}"])

    @property
    def html(self) -> str:
        """The text as HTML, for mail."""
        return "<p>" + "<br>".join(html.escape(line) for line in self.text.splitlines()) + "</p>"
