"""Sends alerts to the log and to the notifiers that the profile names. If one fails, the others still get the alert."""

from __future__ import annotations

import html
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseNotifier

from dedup_clone.contract.errors import AlertNotSent
from dedup_clone.freshness.incident import (
    Incident,
    IncidentRecord,
    IncidentRecords,
    Severity,
    format_duration,
    format_time,
    read_incident_records,
    write_incident_records,
)
from dedup_clone.settings.deployment import AlertSettings, NotifierSettings
from dedup_clone.state.store import ObjectStore

log = logging.getLogger("dedup_clone.alerts")

LOG = "log"  # the name of the log among the notifiers
RECOVERY_RETRIED_FOR = timedelta(hours=1)  # after that, a notifier that keeps failing gets no recovery message

# What the notifiers of Airflow's providers are given, unless the profile gives them something else.
MESSAGES: dict[str, dict[str, Any]] = {
    "airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier": {"text": "{{ alert.text }}"},
    "airflow.providers.smtp.notifications.smtp.SmtpNotifier": {
        "subject": "{{ alert.title }}",
        "html_content": "{{ alert.html }}",
    },
    "airflow.providers.apprise.notifications.apprise.AppriseNotifier": {
        "title": "{{ alert.title }}",
        "body": "{{ alert.text }}",
    },
    "airflow.providers.pagerduty.notifications.pagerduty.PagerdutyNotifier": {
        "summary": "{{ alert.title }}",
        "source": "{{ alert.feed }}",
        "severity": "{{ 'critical' if alert.incident.severity == 'alert' else 'warning' }}",
        "action": "{{ 'resolve' if alert.ended_at else 'trigger' }}",
        "dedup_key": "dedup-clone/{{ alert.feed }}/{{ alert.incident.name }}",
        "custom_details": {"text": "{{ alert.text }}"},
    },
}


@dataclass(frozen=True)
class Alert:
    """The message about one incident. Templates of notifiers in the profile can use its fields and properties.

    `readers_see`: what readers see when the alert is sent. `runbook` and `link` (to the DAG or run in Airflow) are
    URLs. `ended_at` is None while the incident is open.
    """

    feed: str
    incident: Incident
    readers_see: str
    runbook: str
    link: str
    ended_at: datetime | None = None

    @property
    def title(self) -> str:
        state = "RECOVERED" if self.ended_at else self.incident.severity.upper()
        return f"[{self.feed}] {state}: {self.incident.name}"

    @property
    def text(self) -> str:
        """The whole message as a few lines of plain text."""
        since = format_time(self.incident.since)
        if self.ended_at is None:
            what, time, next_step = f"What: {self.incident.what}", f"Since: {since}", self.incident.next_step
        else:
            lasted = format_duration(self.ended_at - self.incident.since)
            time = f"Lasted: {since} to {format_time(self.ended_at)} ({lasted})"
            what, next_step = f"Was: {self.incident.what}", "nothing."
        readers = f"Readers see: {self.readers_see}"
        lines = [self.title, what, time, readers, f"Next: {next_step}", f"Runbook: {self.runbook}"]
        return "\n".join([*lines, f"Airflow: {self.link}"])

    @property
    def html(self) -> str:
        """The text as HTML, for mail."""
        return "<p>" + "<br>".join(html.escape(line) for line in self.text.splitlines()) + "</p>"


def build_alert(
    incident: Incident, ended_at: datetime | None, *, feed: str, readers_see: str, settings: AlertSettings
) -> Alert:
    """The alert that the incident began, or that it ended if `ended_at` is set."""
    return Alert(
        feed=feed,
        incident=incident,
        ended_at=ended_at,
        readers_see=readers_see,
        runbook=f"{settings.runbook}#{incident.kind}",
        link=dag_url(incident.dag_id or f"{feed}_publish", incident.run_id),
    )


def dag_url(dag_id: str, run_id: str = "") -> str:
    """Airflow's page of a DAG, or of one of its runs."""
    from airflow.sdk.configuration import conf

    base = str(conf.get("api", "base_url", fallback="http://localhost:8080")).rstrip("/")
    return f"{base}/dags/{quote(dag_id)}" + (f"/runs/{quote(run_id, safe='')}" if run_id else "")


class AlertNotifiers:
    """The log and the profile's notifiers. `failures`: the error of each notifier that failed, by its name."""

    def __init__(self, settings: AlertSettings) -> None:
        numbered = enumerate(settings.notifiers, 1)
        self._settings = {f"notifier {number} {item.class_path}": item for number, item in numbered}
        self.failures: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return (LOG, *self._settings)

    def send(self, alert: Alert, names: tuple[str, ...]) -> tuple[str, ...]:
        """Sends the alert to the notifiers in `names` and returns the names of those that accepted it."""
        accepted = []
        for name in names:
            try:
                self._send_one(alert, name)
                accepted.append(name)
            except Exception as error:
                self.failures[name] = f"{type(error).__name__}: {error}"
                log.exception("Notifier [%s] failed for [%s]", name, alert.title)
        return tuple(accepted)

    def _send_one(self, alert: Alert, name: str) -> None:
        if name == LOG:
            is_urgent = alert.ended_at is None and alert.incident.severity is Severity.ALERT
            log.log(logging.ERROR if is_urgent else logging.WARNING, "%s", alert.text)
        else:
            make_notifier(self._settings[name])({"alert": alert})

    def require_all(self) -> None:
        """Raise AlertNotSent if a notifier failed."""
        if self.failures:
            failures = "; ".join(f"[{name}] {why}" for name, why in self.failures.items())
            raise AlertNotSent(
                f"Notifier(s) failed: {failures}. Check their connections; a later check sends the alerts again."
            )


def make_notifier(settings: NotifierSettings) -> BaseNotifier:
    """A new notifier. Each alert gets one of its own, because rendering its templates changes a notifier."""
    from airflow.sdk._shared.module_loading import import_string

    arguments = {**MESSAGES.get(settings.class_path, {}), **settings.arguments}
    notifier: BaseNotifier = import_string(settings.class_path)(**arguments)
    return notifier


def report_incidents(
    store: ObjectStore,
    feed: str,
    found: Iterable[Incident],
    now: datetime,
    settings: AlertSettings,
    *,
    readers_see: str,
) -> None:
    """Send an alert for each incident that began, ended or changed its severity, and store what was sent.

    `found`: also the open incidents that could not be looked for. `readers_see`: what readers see now. Raises
    AlertNotSent when a notifier failed: the next check sends it that alert again.
    """
    before, notifiers = read_incident_records(store, feed), AlertNotifiers(settings)

    def tell(record: IncidentRecord) -> IncidentRecord | None:
        alert = build_alert(record.incident, record.ended_at, feed=feed, readers_see=readers_see, settings=settings)
        reached = notifiers.send(alert, record.to_tell(notifiers.names))
        if record.ended_at is None:
            return replace(record, told={**record.told, **dict.fromkeys(reached, record.incident.severity)})
        left = {name: told for name, told in record.told.items() if name in notifiers.names and name not in reached}
        return replace(record, told=left) if left and now - record.ended_at <= RECOVERY_RETRIED_FOR else None

    told = [tell(record) for record in before.compare(found, now)]
    after = IncidentRecords(tuple(record for record in told if record is not None))
    if after != before:
        write_incident_records(store, feed, after)
    notifiers.require_all()
