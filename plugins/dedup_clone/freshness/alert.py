"""One message about one incident: that it began, or that it has ended."""

from __future__ import annotations

import html
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dedup_clone.freshness.incident import Kind, Severity
from dedup_clone.freshness.words import clock, span


class Moment(StrEnum):
    BEGAN = "began"
    ENDED = "ended"


@dataclass(frozen=True)
class Alert:
    """What a notifier sends. `runbook` and `link` (the feed's runs in Airflow) are addresses."""

    feed: str
    kind: Kind
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
    def title(self) -> str:
        return f"[{self.feed}] {'RECOVERED' if self.ended_at else str(self.severity).upper()}: {self.kind}"

    @property
    def text(self) -> str:
        """The whole message in plain text, a few lines."""
        lines = [self.title, f"{'What' if self.ended_at is None else 'Was'}: {self.what}"]
        if self.ended_at is None:
            lines += [f"Since: {clock(self.since)}", f"Readers see: {self.readers_see}", f"Next: {self.next_step}"]
        else:
            lines += [
                f"Lasted: {clock(self.since)} to {clock(self.ended_at)} ({span(self.ended_at - self.since)})",
                f"Readers see: {self.readers_see}",
                "Next: nothing.",
            ]
        return "\n".join([*lines, f"Runbook: {self.runbook}", f"Airflow: {self.link}"])

    @property
    def html(self) -> str:
        """The text for mail that is shown as HTML."""
        return "<p>" + "<br>".join(html.escape(line) for line in self.text.splitlines()) + "</p>"
