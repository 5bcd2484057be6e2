"""Alerts reach the log and each notifier, and one that fails does not affect the others."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from airflow.sdk import BaseNotifier

from dedup_clone.contract.errors import AlertNotSent
from dedup_clone.freshness.incident import IncidentKind
from dedup_clone.freshness.incident_records import IncidentRecord
from dedup_clone.orchestration.watchdog.alert_test import send_test_alerts
from dedup_clone.orchestration.watchdog.notifiers import AlertNotifiers, _event, build_alert
from dedup_clone.settings.alert_settings import AlertSettings, NotifierSettings
from tests.shared.freshness_states import NOW
from tests.shared.incidents import BEGAN, incident


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
    assert seen == ["[sales] ALERT: freshness SLA missed (promise_missed)", "sales/promise_missed"]
    notifiers.send(BEGAN, notifiers.names[1:2])
    assert seen[-1] == "[sales] ALERT: freshness SLA missed (promise_missed)"


def test_a_failing_notifier_is_recorded_and_the_next_one_still_called(seen: list[str]) -> None:
    notifiers = AlertNotifiers(settings("fail", "second"))
    assert notifiers.send(BEGAN, notifiers.names) == ("log", notifiers.names[2])
    assert seen == ["second"]
    assert notifiers.failures == {notifiers.names[1]: "OSError: no route"}


def test_a_missing_class_is_recorded() -> None:
    notifiers = AlertNotifiers(AlertSettings(notifiers=(NotifierSettings(class_path="nowhere.Notifier"),)))
    assert notifiers.send(BEGAN, notifiers.names) == ("log",)
    assert "nowhere" in str(notifiers.failures)


def test_the_mail_notifier_of_airflow_takes_the_documented_arguments() -> None:
    mail = NotifierSettings(
        class_path="airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        arguments={"to": ["ops@example.org"], "subject": "{{ alert.title }}", "html_content": "{{ alert.html }}"},
    )
    notifiers = AlertNotifiers(AlertSettings(notifiers=(mail,)))
    notifier: Any = notifiers._factories[notifiers.names[1]]()
    notifier.render_template_fields({"alert": BEGAN})
    assert notifier.subject == "[sales] ALERT: freshness SLA missed (promise_missed)"
    assert "&lt;b&gt;is&lt;/b&gt;" in notifier.html_content


ENDED = replace(BEGAN, ended_at=NOW)
PAGE = (Path(__file__).parents[3] / "docs" / "alerting.md").read_text()


def test_the_page_names_every_field_of_a_webhook_message() -> None:
    paragraph = PAGE.partition("The JSON has the\n")[2].partition("`notifiers` are")[0]
    fields = {*_event(BEGAN)} - {"text", "payload"}  # the message, and PagerDuty's own field
    assert fields <= set(re.findall(r"`(\w+)`", paragraph))


def send_by_connection_of_the_page(name: str, hook: type[Hook], monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a beginning and an end by the connection that docs/alerting.md makes, but to the test's server."""
    (text,) = re.findall(rf"^echo '(.+)' \|\n.* airflow-connections-{name} ", PAGE, re.MULTILINE)
    here = json.loads(os.environ["AIRFLOW_CONN_CHAT"])
    connection = {**json.loads(text), "host": f"http://{here['host']}:{here['port']}"}
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    notifiers = AlertNotifiers(AlertSettings(webhooks=(name,)))
    for alert in (BEGAN, ENDED):
        assert notifiers.send(alert, (f"webhook {name}",)) == (f"webhook {name}",), notifiers.failures


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
    notifiers = AlertNotifiers(AlertSettings(webhooks=("chat",)))
    assert notifiers.send(BEGAN, notifiers.names) == ("log", "webhook chat")
    ((path, headers, body),) = hook.posts
    assert (path, headers["Authorization"], headers["X-Team"]) == ("/hooks/x", "Bearer s3cret", "data")
    assert body["text"] == BEGAN.text
    assert (body["feed"], body["kind"], body["moment"], body["since"]) == (
        "sales",
        "promise_missed",
        "began",
        "2026-06-15T12:00:00+00:00",
    )


def test_a_webhooks_json_is_an_event_that_pagerduty_opens_and_closes(
    hook: type[Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fields of "Send an event", Events API v2."""
    send_by_connection_of_the_page("alerts_pagerduty", hook, monkeypatch)
    assert {path for path, _, _ in hook.posts} == {"/v2/enqueue"}
    began, ended = (body for _, _, body in hook.posts)
    assert (began["routing_key"], began["event_action"], ended["event_action"]) == ("KEY", "trigger", "resolve")
    assert began["dedup_key"] == ended["dedup_key"] == "dedup-clone/sales/promise_missed"
    assert {"summary", "source", "severity"} <= began["payload"].keys()
    assert began["payload"]["severity"] == "critical"
    assert began["payload"]["custom_details"] == {"text": BEGAN.text}


def test_slack_shows_the_text_of_a_webhooks_json(hook: type[Hook], monkeypatch: pytest.MonkeyPatch) -> None:
    """Slack requires `text`, ignores fields that it does not know, and would take these for parts of the message."""
    send_by_connection_of_the_page("alerts_slack", hook, monkeypatch)
    assert [path for path, _, _ in hook.posts] == ["/services/T000/B000/XXXX"] * 2
    for (_, headers, body), alert in zip(hook.posts, (BEGAN, ENDED), strict=True):
        assert (headers["Content-Type"], body["text"]) == ("application/json", alert.text)
        assert not {"attachments", "blocks", "channel", "icon_emoji", "mrkdwn", "thread_ts", "username"} & body.keys()


def test_the_page_shows_what_arrives_and_valid_settings() -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    lines = dict(line.split(": ", 1) for line in shown.splitlines()[1:])
    moment = datetime.fromisoformat(lines["Since"].replace(" UTC", "+00:00"))
    told = replace(
        BEGAN, feed="product_attributes", what=lines["What"], since=moment, readers_see=lines["Readers see"],
        next_step=lines["Next"], runbook=lines["Runbook"], link=lines["Airflow"],
    )  # fmt: skip
    assert shown == told.text + "\n"
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    named, mail = (AlertSettings.model_validate_json(json.dumps(yaml.safe_load(block)["alerts"])) for block in blocks)
    assert named.webhooks == ("alerts_slack", "alerts_pagerduty")
    assert mail.notifiers[0].class_path.endswith("SmtpNotifier")


def test_a_warning_and_the_alert_that_it_turns_into_have_one_key() -> None:
    at_risk = replace(BEGAN, kind=IncidentKind.SLA_AT_RISK, incident="promise_at_risk")
    assert at_risk.dedup_key == BEGAN.dedup_key
    refused = replace(BEGAN, kind=IncidentKind.DELIVERY_REFUSED, incident="delivery_refused-7-1")
    assert refused.dedup_key == "dedup-clone/sales/delivery_refused-7-1"


def test_the_alert_test_reaches_everybody_with_both_messages(hook: type[Hook]) -> None:
    assert send_test_alerts(AlertSettings(webhooks=("chat",))) == ["log", "webhook chat"]
    assert [body["event_action"] for _, _, body in hook.posts] == ["trigger", "resolve"]
    assert all(body["text"].endswith("/dags/alert_test") for _, _, body in hook.posts)


def test_the_alert_test_fails_for_a_notifier_that_fails_and_for_none(hook: type[Hook]) -> None:
    hook.status = 503
    with pytest.raises(AlertNotSent, match=r"\[webhook chat\].*503.*send the test again"):
        send_test_alerts(AlertSettings(webhooks=("chat",)))
    with pytest.raises(AlertNotSent, match=r"names no notifier.*alerts.webhooks"):
        send_test_alerts(AlertSettings())


def test_a_webhook_error_is_recorded(hook: type[Hook]) -> None:
    hook.status = 503
    notifiers = AlertNotifiers(AlertSettings(webhooks=("chat",)))
    assert notifiers.send(BEGAN, notifiers.names) == ("log",)
    assert "503" in notifiers.failures["webhook chat"]


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


def test_a_missing_connection_is_recorded() -> None:
    notifiers = AlertNotifiers(AlertSettings(webhooks=("nowhere",)))
    assert notifiers.send(BEGAN, notifiers.names) == ("log",)
    assert "nowhere" in notifiers.failures["webhook nowhere"]


def test_an_alert_names_its_heading_in_the_runbook_and_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/")
    record = IncidentRecord(replace(incident(), run_id="publish__7__1"), NOW, None, NOW, (), ())
    where = AlertSettings(runbook="https://host/runbook.md")
    alert = build_alert(record, feed="sales", readers_see="x", settings=where)
    assert alert.runbook == "https://host/runbook.md#arrival_overdue"
    assert alert.link == "https://airflow.example.org/dags/sales_publish/runs/publish__7__1"
