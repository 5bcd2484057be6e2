"""Alerts reach the log and each notifier, and one that fails does not affect the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar

import pytest
from airflow.sdk import BaseNotifier

from dedup_clone.freshness.incident import Severity
from dedup_clone.orchestration.watchdog.notifiers import MESSAGES, Alert, AlertNotifiers, build_alert, make_notifier
from dedup_clone.settings.deployment import AlertSettings, NotifierSettings
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


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, tuple[str, ...]], None]:
    """Makes a notifier class importable that takes, and renders, these arguments."""

    def add(class_path: str, fields: tuple[str, ...]) -> None:
        def make(self: BaseNotifier, **given: Any) -> None:
            BaseNotifier.__init__(self)
            assert set(given) <= set(fields)
            vars(self).update(given)

        module_path, name = class_path.rsplit(".", 1)
        module = ModuleType(module_path)
        members = {"template_fields": fields, "__init__": make, "notify": lambda *_: None}
        setattr(module, name, type(name, (BaseNotifier,), members))
        monkeypatch.setitem(sys.modules, module_path, module)

    return add


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test modules have no name of their own to be imported by."""
    module = ModuleType("notifiers_of_this_test")
    module.Recorder = Recorder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "notifiers_of_this_test", module)


def settings(*subjects: str) -> AlertSettings:
    path = "notifiers_of_this_test.Recorder"
    notifiers = tuple(NotifierSettings(class_path=path, arguments={"subject": s}) for s in subjects)
    return AlertSettings(notifiers=notifiers)


def test_every_alert_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    notifiers = AlertNotifiers(AlertSettings())
    assert notifiers.names == ("log",)
    assert notifiers.send(BEGAN, notifiers.names) == ("log",)
    assert "Next: open the run." in caplog.text


def test_a_notifier_class_gets_the_alert_into_its_templates(seen: list[str]) -> None:
    notifiers = AlertNotifiers(settings("{{ alert.title }}", "{{ alert.feed }}/{{ alert.incident.kind }}"))
    assert len(notifiers.names) == 3
    assert notifiers.send(BEGAN, notifiers.names) == notifiers.names
    assert seen == ["[sales] ALERT: late", "sales/late"]
    notifiers.send(BEGAN, notifiers.names[1:2])
    assert seen[-1] == "[sales] ALERT: late"


def test_a_notifier_that_fails_or_does_not_exist_is_recorded_and_the_next_one_still_called(seen: list[str]) -> None:
    missing = (NotifierSettings(class_path="nowhere.Notifier"),)
    known = settings("fail", "second")
    notifiers = AlertNotifiers(known.model_copy(update={"notifiers": missing + known.notifiers}))
    *_, second = notifiers.names
    assert notifiers.send(BEGAN, notifiers.names) == ("log", second)
    assert seen == ["second"]
    assert sorted(notifiers.failures) == sorted(set(notifiers.names) - {"log", second})
    assert "OSError: no route" in notifiers.failures.values()


ENDED = replace(BEGAN, ended_at=NOW)
SLACK, MAIL, APPRISE, PAGERDUTY = MESSAGES


def arguments(class_path: str, alert: Alert, **given: Any) -> dict[str, Any]:
    """What a notifier of this class would send: its templates rendered as Airflow renders them."""
    notifier = make_notifier(NotifierSettings(class_path=class_path, arguments=given))
    notifier.render_template_fields({"alert": alert})
    return dict(vars(notifier))


@pytest.mark.parametrize(("class_path", "fields"), [(path, tuple(fields)) for path, fields in MESSAGES.items()])
def test_the_notifiers_of_the_providers_get_the_message_without_being_told_it(
    class_path: str, fields: tuple[str, ...], provider: Any
) -> None:
    """A class of the same fields takes the place of providers that the tests do not install."""
    provider(class_path, (*fields, "connection"))
    sent = arguments(class_path, BEGAN, connection="on_call")
    assert sent["connection"] == "on_call"
    assert BEGAN.title in str(sent)
    assert "{{" not in str(sent)


def test_pagerduty_opens_and_closes_one_incident(provider: Any) -> None:
    """The fields of "Send an event", Events API v2."""
    provider(PAGERDUTY, tuple(MESSAGES[PAGERDUTY]))
    warning = replace(BEGAN, incident=replace(BEGAN.incident, severity=Severity.WARNING))
    began, ended, before = (arguments(PAGERDUTY, alert) for alert in (BEGAN, ENDED, warning))
    assert (began["action"], ended["action"]) == ("trigger", "resolve")
    assert {sent["dedup_key"] for sent in (began, ended, before)} == {"dedup-clone/sales/late"}
    assert (began["severity"], before["severity"]) == ("critical", "warning")
    assert began["custom_details"] == {"text": BEGAN.text}


def test_mail_has_the_text_and_other_arguments_can_be_given() -> None:
    sent = arguments(MAIL, BEGAN, to=["ops@example.org"])
    assert (sent["subject"], sent["to"]) == ("[sales] ALERT: late", ["ops@example.org"])
    assert "&lt;b&gt;is&lt;/b&gt;" in sent["html_content"]
    assert arguments(MAIL, BEGAN, to="a@b.c", subject="{{ alert.feed }}")["subject"] == "sales"


def test_braces_in_data_are_text(provider: Any) -> None:
    provider(SLACK, ("text",))
    braces = replace(BEGAN, incident=replace(BEGAN.incident, what="column [{{ 1 + 1 }}] is new"))
    assert "column [{{ 1 + 1 }}] is new" in arguments(SLACK, braces)["text"]


def test_an_alert_names_its_heading_in_the_runbook_and_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/")
    found = replace(incident(), run_id="publish__7__1")
    where = AlertSettings(runbook="https://host/runbook.md")
    alert = build_alert(found, None, feed="sales", readers_see="x", settings=where)
    assert alert.runbook == "https://host/runbook.md#arrival_overdue"
    assert alert.link == "https://airflow.example.org/dags/sales_publish/runs/publish__7__1"
