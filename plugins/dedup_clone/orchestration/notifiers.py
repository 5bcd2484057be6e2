"""Sends alerts: to the log always, and to the notifiers that the profile names, each by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseNotifier

from dedup_clone.contract.records import to_plain
from dedup_clone.freshness.alert import Alert, Moment
from dedup_clone.freshness.incident import Severity
from dedup_clone.freshness.incident_files import IncidentRecord
from dedup_clone.settings.alerts import AlertSettings

log = logging.getLogger("dedup_clone.alerts")

LOG = "log"
WEBHOOK_TIMEOUT_S = 15


class WebhookNotifier(BaseNotifier):
    """Posts the alert as JSON to the address of an Airflow connection.

    The connection's host, port, schema (`https` unless it says so) and extra `path` make the address; its login is sent
    as basic authorisation, a password alone as a bearer token; extra `headers` are added. `text` holds the whole
    message, which is what chat programmes show.
    """

    template_fields = ("connection",)

    def __init__(self, connection: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connection = connection

    def notify(self, context: Any) -> None:
        """Raises requests.HTTPError when the address does not accept it."""
        import requests
        from airflow.sdk import Connection

        connection, alert = Connection.get(self.connection), context["alert"]
        extra = connection.extra_dejson
        headers = {str(key): str(value) for key, value in (extra.get("headers") or {}).items()}
        login = (connection.login, connection.password or "") if connection.login else None
        if connection.password and not connection.login:
            headers["Authorization"] = f"Bearer {connection.password}"
        answer = requests.post(
            _address(connection, str(extra.get("path") or "")),
            json={"title": alert.title, "text": alert.text, **to_plain(alert)},
            headers=headers,
            auth=login,
            timeout=WEBHOOK_TIMEOUT_S,
        )
        answer.raise_for_status()


def _address(connection: Any, path: str) -> str:
    host = str(connection.host or "")
    base = host if "://" in host else f"{connection.schema or 'https'}://{host}"
    port = f":{connection.port}" if connection.port else ""
    return f"{base.rstrip('/')}{port}/{path.lstrip('/')}".rstrip("/")


class AlertSender:
    """All who are told. `failed` names those that could not be reached by this sender."""

    def __init__(self, settings: AlertSettings) -> None:
        self._make: dict[str, Callable[[], BaseNotifier]] = {}
        for connection in settings.webhooks:
            self._make[f"webhook {connection}"] = partial(WebhookNotifier, connection)
        for number, item in enumerate(settings.notifiers, 1):
            self._make[f"notifier {number} {item.class_path}"] = partial(_notifier, item.class_path, item.arguments)
        self.failed: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return (LOG, *self._make)

    def send(self, alert: Alert, names: tuple[str, ...]) -> tuple[str, ...]:
        """Tell those of `names`; returns who was reached. One that fails is noted and keeps no other from it."""
        reached = []
        for name in names:
            try:
                self._send_one(alert, name)
                reached.append(name)
            except Exception as error:
                self.failed[name] = f"{type(error).__name__}: {error}"
                log.exception("Notifier [%s] failed for [%s]", name, alert.title)
        return tuple(reached)

    def _send_one(self, alert: Alert, name: str) -> None:
        if name == LOG:
            urgent = alert.moment is Moment.BEGAN and alert.severity is Severity.ALERT
            log.log(logging.ERROR if urgent else logging.WARNING, "%s", alert.text)
        else:
            self._make[name]()({"alert": alert})


def _notifier(class_path: str, arguments: dict[str, Any]) -> BaseNotifier:
    """A fresh one for each alert: rendering its templates changes it."""
    from airflow.sdk._shared.module_loading import import_string

    notifier: BaseNotifier = import_string(class_path)(**arguments)
    return notifier


def alert_of(
    record: IncidentRecord, *, feed: str, readers_see: str, settings: AlertSettings, run_id: str = ""
) -> Alert:
    """The message about a record: that it began, or, when it has ended, that."""
    incident, ended = record.incident, record.ended_at is not None
    return Alert(
        feed=feed,
        kind=incident.kind,
        severity=incident.severity,
        moment=Moment.ENDED if ended else Moment.BEGAN,
        what=incident.what,
        since=incident.since,
        ended_at=record.ended_at,
        readers_see=readers_see if ended else incident.readers_see,
        next_step=incident.next_step,
        runbook=f"{settings.runbook}#{incident.kind}",
        link=page_of(f"{feed}_publish", run_id),
    )


def page_of(dag_id: str, run_id: str = "") -> str:
    """The page of a DAG, or of one of its runs, in Airflow."""
    from airflow.sdk.configuration import conf

    base = str(conf.get("api", "base_url", fallback="http://localhost:8080")).rstrip("/")
    return f"{base}/dags/{quote(dag_id)}" + (f"/runs/{quote(run_id, safe='')}" if run_id else "")
