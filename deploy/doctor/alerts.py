"""Checks that somebody is told of incidents."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.doctor.finding import Finding, Level, LiveEnvironment, ok


def check_alerts(live: LiveEnvironment) -> Iterator[Finding]:
    """The profile must name a notifier; otherwise incidents appear only in the log and on the page."""
    count = len(live.profile.alerts.notifiers)
    if not count:
        text = "nobody is told of incidents: the profile names no notifier."
        command = "(add `notifiers` to section `alerts` of the profile; docs/alerts-and-metrics.md)"
        yield Finding(Level.FAIL, "alerts", text, command)
    else:
        yield ok("alerts", f"[{count}] notifier(s); `make alert-test` shows whether they are reached.")
