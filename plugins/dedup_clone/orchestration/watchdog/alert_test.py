"""Sends a test alert, and its recovery, to the log and to every notifier of the profile."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from dedup_clone.contract.errors import AlertNotSent
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.incident_records import IncidentRecord
from dedup_clone.orchestration.watchdog.notifiers import AlertNotifiers, build_alert
from dedup_clone.settings.alert_settings import AlertSettings
from dedup_clone.settings.deployment import read_deployment

FEED = "alert_test"  # takes the place of the feed's name


def send_alerts_of_profile(profiles: Path) -> list[str]:
    """Sends the test alerts to the notifiers of the profile in the folder `profiles`; see `send_test_alerts`."""
    return send_test_alerts(read_deployment(profiles).alerts)


def send_test_alerts(settings: AlertSettings) -> list[str]:
    """Sends alert and recovery; returns the notifiers' names. Raises AlertNotSent if one failed or none is set up."""
    notifiers, now = AlertNotifiers(settings), datetime.now(UTC)
    if len(notifiers.names) == 1:  # only the log
        raise AlertNotSent(
            "The profile names no notifier, so alerts are written to the log only: add [alerts.webhooks] or "
            "[alerts.notifiers] to the profile (docs/alerting.md), deploy it, and send the test again."
        )
    incident = Incident(
        IncidentKind.ALERT_TEST,
        Severity.ALERT,
        since=now,
        what="somebody triggered the DAG [alert_test] to see whether alerts arrive.",
        readers_see="what they saw before: this is a test",
        next_step="none; a recovery message follows.",
        dag_id=FEED,
    )
    for ended_at in (None, now):
        record = IncidentRecord(incident, now, ended_at, None, (), ())
        alert = build_alert(record, feed=FEED, readers_see=incident.readers_see, settings=settings)
        notifiers.send(alert, notifiers.names)
    if notifiers.failures:
        failures = "; ".join(f"[{name}] {why}" for name, why in notifiers.failures.items())
        raise AlertNotSent(f"Notifier(s) failed: {failures}. Check their connections, then send the test again.")
    return list(notifiers.names)
