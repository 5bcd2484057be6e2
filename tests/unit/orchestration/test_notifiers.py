"""Alerts reach the log and each notifier, and one that fails does not affect the others."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from airflow.sdk import BaseNotifier

from dedup_clone.freshness.incident import IncidentKind
from dedup_clone.orchestration.watchdog.notifiers import AlertNotifiers, build_alert
from dedup_clone.settings.alert_settings import AlertSettings, NotifierSettings
from deploy import alert_test
from deploy.environment_settings import REPOSITORY
from tests.shared.freshness_states import BEGAN, NOW, incident


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


def test_every_alert_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    notifiers = AlertNotifiers(AlertSettings())
    assert notifiers.names == ("log",)
    assert notifiers.send(BEGAN, notifiers.names) == ("log",)
    assert "Next: open the run." in caplog.text


def test_a_notifier_class_gets_the_alert_into_its_templates(seen: list[str]) -> None:
    notifiers = AlertNotifiers(settings("{{ alert.title }}", "{{ alert.feed }}/{{ alert.kind }}"))
    assert len(notifiers.names) == 3
    assert notifiers.send(BEGAN, notifiers.names) == notifiers.names
    assert seen == ["[sales] ALERT: sla_missed", "sales/sla_missed"]
    notifiers.send(BEGAN, notifiers.names[1:2])
    assert seen[-1] == "[sales] ALERT: sla_missed"


def test_a_notifier_that_fails_or_does_not_exist_is_recorded_and_the_next_one_still_called(seen: list[str]) -> None:
    missing = (NotifierSettings(class_path="nowhere.Notifier"),)
    known = settings("fail", "second")
    notifiers = AlertNotifiers(
        known.model_copy(update={"notifiers": missing + known.notifiers, "webhooks": ("nobody",)})
    )
    *_, second = notifiers.names
    assert notifiers.send(BEGAN, notifiers.names) == ("log", second)
    assert seen == ["second"]
    assert sorted(notifiers.failures) == sorted(set(notifiers.names) - {"log", second})
    assert "OSError: no route" in notifiers.failures.values()


def test_the_mail_notifier_of_airflow_takes_the_documented_arguments() -> None:
    mail = NotifierSettings(
        class_path="airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        arguments={"to": ["ops@example.org"], "subject": "{{ alert.title }}", "html_content": "{{ alert.html }}"},
    )
    notifiers = AlertNotifiers(AlertSettings(notifiers=(mail,)))
    notifier: Any = notifiers._factories[notifiers.names[1]]()
    notifier.render_template_fields({"alert": BEGAN})
    assert notifier.subject == "[sales] ALERT: sla_missed"
    assert "&lt;b&gt;is&lt;/b&gt;" in notifier.html_content


ENDED = replace(BEGAN, ended_at=NOW)


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
        "extra": {"path": "/hooks/x", "headers": {"X-Team": "data"}, "fields": {"routing_key": "KEY"}},
    }
    monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps(connection))
    Hook.posts.clear()
    Hook.status = 200
    yield Hook
    server.shutdown()
    server.server_close()


def test_a_webhook_gets_the_alert_as_json_with_the_login_of_its_connection(hook: type[Hook]) -> None:
    notifiers = AlertNotifiers(AlertSettings(webhooks=("chat",)))
    assert notifiers.send(BEGAN, notifiers.names) == ("log", "webhook chat")
    ((path, headers, body),) = hook.posts
    assert (path, headers["Authorization"], headers["X-Team"]) == ("/hooks/x", "Bearer s3cret", "data")
    assert body["text"] == BEGAN.text
    assert (body["feed"], body["kind"], body["moment"], body["since"]) == (
        "sales",
        "sla_missed",
        "began",
        "2026-06-15T12:00:00+00:00",
    )


def test_one_json_is_an_event_of_pagerduty_and_a_message_of_slack(hook: type[Hook]) -> None:
    """The fields of "Send an event", Events API v2. Slack requires `text`, and ignores fields that it does not know."""
    notifiers = AlertNotifiers(AlertSettings(webhooks=("chat",)))
    for alert in (BEGAN, ENDED):
        assert notifiers.send(alert, ("webhook chat",)) == ("webhook chat",), notifiers.failures
    began, ended = (body for _, _, body in hook.posts)
    assert (began["event_action"], ended["event_action"]) == ("trigger", "resolve")
    assert began["dedup_key"] == ended["dedup_key"] == "dedup-clone/sales/sla_missed"
    assert {"summary", "source", "severity"} <= began["payload"].keys()
    assert (began["payload"]["severity"], began["routing_key"]) == ("critical", "KEY")
    assert began["payload"]["custom_details"] == {"text": BEGAN.text}
    assert [body["text"] for body in (began, ended)] == [BEGAN.text, ENDED.text]
    parts_of_slack = {"attachments", "blocks", "channel", "icon_emoji", "mrkdwn", "thread_ts", "username"}
    assert not parts_of_slack & began.keys()


def test_a_warning_and_the_alert_that_it_turns_into_have_one_key() -> None:
    at_risk = replace(BEGAN, kind=IncidentKind.SLA_AT_RISK, incident="sla_at_risk")
    assert at_risk.dedup_key == BEGAN.dedup_key
    refused = replace(BEGAN, kind=IncidentKind.DELIVERY_REFUSED, incident="delivery_refused-7-1")
    assert refused.dedup_key == "dedup-clone/sales/delivery_refused-7-1"


def send_test_alert(folder: Path, profile: str) -> int:
    """The command's exit status. `profile`: the section `alerts` of the local profile."""
    shutil.copytree(REPOSITORY / "dags/profiles", folder / "profiles", dirs_exist_ok=True)
    local = folder / "profiles/local.yaml"
    local.write_text((REPOSITORY / "dags/profiles/local.yaml").read_text() + profile)
    return alert_test.main(folder)


def test_a_test_alert_reaches_everybody_with_both_messages(
    hook: type[Hook], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert send_test_alert(tmp_path, "alerts: {webhooks: [chat]}") == 0
    assert [body["event_action"] for _, _, body in hook.posts] == ["trigger", "resolve"]
    assert [body["title"] for _, _, body in hook.posts] == [
        "[alert-test] ALERT: alert_test",
        "[alert-test] RECOVERED: alert_test",
    ]
    assert "to [log], [webhook chat]." in capsys.readouterr().out


def test_a_test_alert_fails_for_a_notifier_that_fails_and_for_none(
    hook: type[Hook], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hook.status = 503
    assert send_test_alert(tmp_path, "alerts: {webhooks: [chat, nobody]}") == 1
    error = capsys.readouterr().err
    assert "alert-test: Notifier(s) failed: [webhook chat] HTTPError: 503" in error
    assert "[webhook nobody] AirflowNotFoundException" in error
    assert send_test_alert(tmp_path, "") == 1
    assert "The profile names no notifier" in capsys.readouterr().err


@pytest.mark.parametrize("is_reached", [True, False])
def test_a_webhook_error_does_not_show_the_path_which_may_be_a_secret(
    hook: type[Hook], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_reached: bool
) -> None:
    hook.status = 404
    connection = json.loads(os.environ["AIRFLOW_CONN_CHAT"])
    port = connection["port"] if is_reached else 9  # nothing listens to the discard port
    connection |= {"port": port, "extra": {"path": "/services/T000/XX XX?key=K00 K00"}}
    monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps(connection))
    notifiers = AlertNotifiers(AlertSettings(webhooks=("chat",)))
    assert notifiers.send(BEGAN, notifiers.names) == ("log",)
    assert ("404" if is_reached else "refused") in notifiers.failures["webhook chat"]
    shown = f"{notifiers.failures}{caplog.text}"
    assert not any(secret in shown for secret in ("T000", "XX", "K00"))


def test_an_alert_names_its_heading_in_the_runbook_and_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/")
    found = replace(incident(), run_id="publish__7__1")
    where = AlertSettings(runbook="https://host/runbook.md")
    alert = build_alert(found, None, feed="sales", readers_see="x", settings=where)
    assert alert.runbook == "https://host/runbook.md#arrival_overdue"
    assert alert.link == "https://airflow.example.org/dags/sales_publish/runs/publish__7__1"
