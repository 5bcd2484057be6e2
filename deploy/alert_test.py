"""The verb `alert-test`: sends a test alert, and its recovery, to everybody whom the profile names.

It finds the profile's connections as Airflow does: in a secrets backend or in environment variables.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from dedup_clone.contract.errors import AlertNotSent
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.orchestration.watchdog.notifiers import AlertNotifiers, build_alert
from deploy.environment_settings import read_profile

NO_FEED = "alert-test"  # takes the place of the feed's name; no feed can have this name


def run(options: argparse.Namespace, dags: Path) -> int:
    """Raises AlertNotSent if a notifier failed, or if the profile names none."""
    settings, now = read_profile(dags).alerts, datetime.now(UTC)
    notifiers = AlertNotifiers(settings)
    if len(notifiers.names) == 1:  # only the log
        raise AlertNotSent(
            "The profile names no notifier, so alerts are written to the log only: add [alerts.notifiers] to the "
            "profile (docs/alerts-and-metrics.md), then send the test again."
        )
    incident = Incident(
        IncidentKind.REPORTING,
        Severity.ALERT,
        since=now,
        what="somebody sent a test alert to see whether alerts arrive.",
        next_step="none; a recovery message follows.",
        subject="alert_test",
        dag_id="freshness_watchdog",
    )
    for ended_at in (None, now):
        alert = build_alert(
            incident, ended_at, feed=NO_FEED, readers_see="what they saw before: this is a test", settings=settings
        )
        notifiers.send(alert, notifiers.names)
    notifiers.require_all(", then send the test again.")
    print(f"Sent an alert and its recovery to {', '.join(f'[{name}]' for name in notifiers.names)}.")
    return 0
