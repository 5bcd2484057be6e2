"""Sends alerts to the log and to the notifiers that the profile names. If one fails, the others still get the alert."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseNotifier

from dedup_clone.contract.errors import AlertNotSent
from dedup_clone.contract.records import to_plain
from dedup_clone.freshness.incident import Alert, Incident, IncidentKind, Moment, Severity
from dedup_clone.freshness.incident_records import (
    IncidentRecord,
    IncidentRecords,
    read_incident_records,
    write_incident_records,
)
from dedup_clone.settings.alert_settings import AlertSettings
from dedup_clone.state.store import ObjectStore

log = logging.getLogger("dedup_clone.alerts")

LOG = "log"  # the name of the log among the notifiers
WEBHOOK_TIMEOUT_S = 15
RECOVERY_RETRIED_FOR = timedelta(hours=1)  # after that, a notifier that keeps failing gets no recovery message


class WebhookNotifier(BaseNotifier):
    """Posts the alert as JSON to the address of an Airflow connection.

    The connection's schema (default `https`), host, port and extra `path` make the address. Its login is sent as basic
    authorization, a password without login as a bearer token; extra `headers` are added. The field `text` of the JSON
    is the whole message, which chat programs show. `event_action`, `dedup_key` and `payload` have the names and meaning
    of PagerDuty's events (version 2). The connection's extra `fields` are added to the JSON, such as the `routing_key`
    that PagerDuty requires.
    """

    template_fields = ("connection",)

    def __init__(self, connection: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connection = connection

    def notify(self, context: Any) -> None:
        """Posts the alert. Raises a requests.RequestException when the server answers with an error, or not at all.

        The log shows the exception's text, which lacks the address's path: the path can be a secret, such as Slack's.
        """
        import requests
        from airflow.sdk import Connection

        connection, alert = Connection.get(self.connection), context["alert"]
        extra = connection.extra_dejson
        url = _url(connection, str(extra.get("path") or ""))
        headers = {str(key): str(value) for key, value in (extra.get("headers") or {}).items()}
        login = (connection.login, connection.password or "") if connection.login else None
        if connection.password and not connection.login:
            headers["Authorization"] = f"Bearer {connection.password}"
        try:
            response = requests.post(
                url,
                json={**_event(alert), **(extra.get("fields") or {})},
                headers=headers,
                auth=login,
                timeout=WEBHOOK_TIMEOUT_S,
            )
            response.raise_for_status()
        except requests.RequestException as error:
            error.args = (_without_path(error, url),)
            error.__suppress_context__ = True  # the errors that caused it have the path, too
            raise


def _event(alert: Alert) -> dict[str, Any]:
    """The JSON that a webhook gets, without the connection's extra `fields`."""
    severity = "critical" if alert.severity is Severity.ALERT else "warning"
    details = {"text": alert.text}  # PagerDuty takes an object here
    return {
        "title": alert.title,
        "text": alert.text,
        "event_action": alert.event_action,
        "dedup_key": alert.dedup_key,
        "payload": {"summary": alert.title, "source": alert.feed, "severity": severity, "custom_details": details},
        **to_plain(alert),
    }


def _url(connection: Any, path: str) -> str:
    """The address that the connection names. `path`: from the connection's extra."""
    host = str(connection.host or "")
    base = host if "://" in host else f"{connection.schema or 'https'}://{host}"
    port = f":{connection.port}" if connection.port else ""
    return f"{base.rstrip('/')}{port}/{path.lstrip('/')}".rstrip("/")


def _without_path(error: Any, url: str) -> str:
    """The error's text without the path of `url`, whether the text has it as in `url` or as `requests` sent it."""
    sent = "" if error.request is None else error.request.path_url
    text = str(error)
    for path in (sent.strip("/"), url.partition("://")[2].partition("/")[2].strip("/")):
        text = text.replace(path, "***") if path else text
    return text


class AlertNotifiers:
    """The log and the profile's notifiers. `failures`: the error of each notifier that failed, by its name."""

    def __init__(self, settings: AlertSettings) -> None:
        self._factories: dict[str, Callable[[], BaseNotifier]] = {}
        for connection in settings.webhooks:
            self._factories[f"webhook {connection}"] = partial(WebhookNotifier, connection)
        for number, item in enumerate(settings.notifiers, 1):
            self._factories[f"notifier {number} {item.class_path}"] = partial(
                _notifier, item.class_path, item.arguments
            )
        self.failures: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return (LOG, *self._factories)

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
            urgent = alert.moment is Moment.BEGAN and alert.severity is Severity.ALERT
            log.log(logging.ERROR if urgent else logging.WARNING, "%s", alert.text)
        else:
            self._factories[name]()({"alert": alert})


def _notifier(class_path: str, arguments: dict[str, Any]) -> BaseNotifier:
    """A new notifier. Each alert gets one of its own, because rendering its templates changes a notifier."""
    from airflow.sdk._shared.module_loading import import_string

    notifier: BaseNotifier = import_string(class_path)(**arguments)
    return notifier


def report_incidents(
    store: ObjectStore,
    feed: str,
    found: Iterable[Incident],
    now: datetime,
    settings: AlertSettings,
    *,
    readers_see: str,
    unchecked: Collection[IncidentKind] = (),
) -> None:
    """Send an alert for each incident that has begun or ended since the last check, and store what was sent.

    Incidents of the kinds in `unchecked` stay open. `readers_see`: see `build_alert`. Raises AlertNotSent when a
    notifier failed: the next check sends it that alert again.
    """
    before, notifiers = read_incident_records(store, feed), AlertNotifiers(settings)

    def tell(record: IncidentRecord) -> IncidentRecord | None:
        alert = build_alert(record.incident, record.ended_at, feed=feed, readers_see=readers_see, settings=settings)
        if record.ended_at is None:
            missing = tuple(name for name in notifiers.names if name not in record.told)
            return replace(record, told=(*record.told, *notifiers.send(alert, missing)))
        missing = tuple(name for name in notifiers.names if name in record.told)
        reached = notifiers.send(alert, missing)
        missing = tuple(name for name in missing if name not in reached)
        return replace(record, told=missing) if missing and now - record.ended_at <= RECOVERY_RETRIED_FOR else None

    told = [tell(record) for record in before.compare(found, now, unchecked)]
    after = IncidentRecords(tuple(record for record in told if record is not None))
    if after != before:
        write_incident_records(store, feed, after)
    if notifiers.failures:
        failures = "; ".join(f"[{name}] {why}" for name, why in notifiers.failures.items())
        raise AlertNotSent(
            f"Notifier(s) failed: {failures}. Check their connections; a later check sends the alerts again."
        )


def build_alert(
    incident: Incident, ended_at: datetime | None, *, feed: str, readers_see: str, settings: AlertSettings
) -> Alert:
    """The alert that the incident began, or that it ended if `ended_at` is set.

    `readers_see`: what readers see at the end of the incident; not used at its beginning.
    """
    ended = ended_at is not None
    return Alert(
        feed=feed,
        incident=incident.name,
        kind=incident.kind,
        severity=incident.severity,
        moment=Moment.ENDED if ended else Moment.BEGAN,
        what=incident.what,
        since=incident.since,
        ended_at=ended_at,
        readers_see=readers_see if ended else incident.readers_see,
        next_step=incident.next_step,
        runbook=f"{settings.runbook}#{incident.kind}",
        link=dag_url(incident.dag_id or f"{feed}_publish", incident.run_id),
    )


def dag_url(dag_id: str, run_id: str = "") -> str:
    """Airflow's page of a DAG, or of one of its runs."""
    from airflow.sdk.configuration import conf

    base = str(conf.get("api", "base_url", fallback="http://localhost:8080")).rstrip("/")
    return f"{base}/dags/{quote(dag_id)}" + (f"/runs/{quote(run_id, safe='')}" if run_id else "")
