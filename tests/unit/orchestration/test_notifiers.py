"""Who is told: each notifier by itself, through Airflow's own notifier classes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from airflow.sdk import BaseNotifier

from dedup_clone.freshness.incident_files import IncidentRecord
from dedup_clone.orchestration.notifiers import AlertSender, alert_of
from dedup_clone.settings.alerts import AlertSettings, NotifierSettings
from tests.unit.freshness.facts import NOW
from tests.unit.freshness.test_alert import BEGAN


class Recorder(BaseNotifier):
    """A notifier with a templated field, as chat and mail have."""

    template_fields = ("subject",)
    seen: ClassVar[list[str]] = []

    def __init__(self, subject: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subject = subject

    def notify(self, context: Any) -> None:
        if self.subject == "fail":
            raise OSError("no route")
        self.seen.append(self.subject)


@pytest.fixture
def seen() -> list[str]:
    Recorder.seen.clear()
    return Recorder.seen


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test modules have no name of their own to be imported by."""
    import sys
    from types import ModuleType

    module = ModuleType("notifiers_of_this_test")
    module.Recorder = Recorder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "notifiers_of_this_test", module)


def settings(*subjects: str, **changes: Any) -> AlertSettings:
    path = "notifiers_of_this_test.Recorder"
    notifiers = tuple(NotifierSettings(class_path=path, arguments={"subject": s}) for s in subjects)
    return AlertSettings(notifiers=notifiers, **changes)


def test_the_log_is_always_told(caplog: pytest.LogCaptureFixture) -> None:
    sender = AlertSender(AlertSettings())
    assert sender.names == ("log",)
    assert sender.send(BEGAN, sender.names) == ("log",)
    assert "Next: open the run." in caplog.text


def test_a_notifier_class_gets_the_alert_into_its_templates(seen: list[str]) -> None:
    sender = AlertSender(settings("{{ alert.title }}", "{{ alert.feed }}/{{ alert.kind }}"))
    assert len(sender.names) == 3
    assert sender.send(BEGAN, sender.names) == sender.names
    assert seen == ["[sales] ALERT: promise_missed", "sales/promise_missed"]
    sender.send(BEGAN, sender.names[1:2])
    assert seen[-1] == "[sales] ALERT: promise_missed"


def test_one_that_fails_is_noted_and_keeps_no_other_from_it(seen: list[str]) -> None:
    sender = AlertSender(settings("fail", "second"))
    assert sender.send(BEGAN, sender.names) == ("log", sender.names[2])
    assert seen == ["second"]
    assert sender.failed == {sender.names[1]: "OSError: no route"}


def test_a_class_that_is_not_there_is_noted() -> None:
    sender = AlertSender(AlertSettings(notifiers=(NotifierSettings(class_path="nowhere.Notifier"),)))
    assert sender.send(BEGAN, sender.names) == ("log",)
    assert "nowhere" in str(sender.failed)


def test_the_mail_notifier_of_airflow_takes_the_documented_arguments() -> None:
    mail = NotifierSettings(
        class_path="airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        arguments={"to": ["ops@example.org"], "subject": "{{ alert.title }}", "html_content": "{{ alert.html }}"},
    )
    sender = AlertSender(AlertSettings(notifiers=(mail,)))
    notifier: Any = sender._make[sender.names[1]]()
    notifier.render_template_fields({"alert": BEGAN})
    assert notifier.subject == "[sales] ALERT: promise_missed"
    assert "&lt;b&gt;is&lt;/b&gt;" in notifier.html_content


class Hook(BaseHTTPRequestHandler):
    posts: ClassVar[list[tuple[str, dict[str, str], dict[str, Any]]]] = []
    status: ClassVar[int] = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.posts.append((self.path, dict(self.headers), body))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hook]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connection = {
        "conn_type": "http",
        "schema": "http",
        "host": "127.0.0.1",
        "port": server.server_port,
        "password": "s3cret",
        "extra": {"path": "/hooks/x", "headers": {"X-Team": "data"}},
    }
    monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps(connection))
    Hook.posts.clear()
    Hook.status = 200
    yield Hook
    server.shutdown()
    server.server_close()


def test_a_webhook_gets_the_alert_as_json_with_the_login_of_its_connection(hook: type[Hook]) -> None:
    sender = AlertSender(AlertSettings(webhooks=("chat",)))
    assert sender.send(BEGAN, sender.names) == ("log", "webhook chat")
    ((path, headers, body),) = hook.posts
    assert (path, headers["Authorization"], headers["X-Team"]) == ("/hooks/x", "Bearer s3cret", "data")
    assert body["text"] == BEGAN.text
    assert (body["feed"], body["kind"], body["moment"], body["since"]) == (
        "sales",
        "promise_missed",
        "began",
        "2026-06-15T12:00:00+00:00",
    )


def test_a_webhook_that_answers_with_an_error_is_noted(hook: type[Hook]) -> None:
    hook.status = 503
    sender = AlertSender(AlertSettings(webhooks=("chat",)))
    assert sender.send(BEGAN, sender.names) == ("log",)
    assert "503" in sender.failed["webhook chat"]


def test_a_connection_that_is_not_there_is_noted() -> None:
    sender = AlertSender(AlertSettings(webhooks=("nowhere",)))
    assert sender.send(BEGAN, sender.names) == ("log",)
    assert "nowhere" in sender.failed["webhook nowhere"]


def test_an_alert_names_its_heading_in_the_runbook_and_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.contract.freshness.test_incident_files import incident

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/")
    record = IncidentRecord(incident(), NOW, None, NOW, (), ())
    where = AlertSettings(runbook="https://host/runbook.md")
    alert = alert_of(record, feed="sales", readers_see="x", settings=where, run_id="publish__7__1")
    assert alert.runbook == "https://host/runbook.md#arrival_overdue"
    assert alert.link == "https://airflow.example.org/dags/sales_publish/runs/publish__7__1"
