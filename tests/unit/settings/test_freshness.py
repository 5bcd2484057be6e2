"""The feed section `freshness` and the profile section `alerts`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.feed import read_feed

DAGS = Path(__file__).parents[3] / "dags"
FEED = (DAGS / "feeds" / "worked_example.yaml").read_text()
PROFILE = (DAGS / "profiles" / "local.yaml").read_text()


def read_with(folder: Path, freshness: str) -> object:
    path = folder / "worked_example.yaml"
    path.write_text(FEED.replace("sla_minutes: 60", f"sla_minutes: 60\n  {freshness}"))
    return read_feed(path).freshness.expected_arrivals


def test_expected_arrivals_are_read(tmp_path: Path) -> None:
    found = read_with(tmp_path, 'expected_arrivals: {times: ["10:00", 02:00], zone: Europe/Berlin, grace_minutes: 5}')
    assert str(found) == "times=('10:00', '02:00') zone='Europe/Berlin' grace_minutes=5"


@pytest.mark.parametrize(
    ("freshness", "message"),
    [
        ("expected_arrivals: {times: [1000]}", r"expected_arrivals.times.0\]: Input should be a valid string"),
        ('expected_arrivals: {times: ["24:00"]}', r"expected_arrivals.times.0\]: String should match pattern"),
        ('expected_arrivals: {times: ["7:00"]}', r"expected_arrivals.times.0\]: String should match pattern"),
        ("expected_arrivals: {times: []}", r"expected_arrivals.times\]: Tuple should have at least 1 item"),
        ("expected_arrivals: {times: 5}", r"expected_arrivals.times\]: Input should be a valid array"),
        ('expected_arrivals: {times: ["10:00", "10:00"]}', "a time is named twice"),
        ('expected_arrivals: {times: ["10:00"], zone: Berlin}', r"zone \[Berlin\] is no IANA time zone"),
        ('expected_arrivals: {times: ["10:00"], zone: "../etc/passwd"}', "is no IANA time zone"),
        ('expected_arrivals: {time: ["10:00"]}', r"unknown key \[freshness.expected_arrivals.time\]: did you mean"),
        ("max_age_minutes: 0", "greater than or equal to 1"),
    ],
)
def test_wrong_settings_are_refused_with_the_key(tmp_path: Path, freshness: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_with(tmp_path, freshness)


ALERTS = """
alerts:
  check_interval_minutes: 3
  runbook: https://example.org/runbook.md
  webhooks: [chat]
  notifiers:
    - class_path: airflow.providers.smtp.notifications.smtp.SmtpNotifier
      arguments: {to: [ops@example.org], subject: "{{ alert.title }}", html_content: "{{ alert.html }}"}
"""


def test_notifiers_are_read_from_the_profile(tmp_path: Path) -> None:
    (tmp_path / "local.yaml").write_text(PROFILE.split("alerts:")[0] + ALERTS)
    alerts = read_deployment(tmp_path, {"DEDUP_CLONE_PROFILE": "local"}).alerts
    assert (alerts.webhooks, alerts.check_interval_minutes) == (("chat",), 3)
    assert alerts.notifiers[0].arguments["to"] == ["ops@example.org"]


def test_a_class_path_that_contains_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "local.yaml").write_text(
        PROFILE.split("alerts:")[0] + ALERTS.replace("airflow.providers.smtp.notifications.smtp.SmtpNotifier", "os; x")
    )
    with pytest.raises(ConfigurationError, match=r"alerts.notifiers.0.class_path"):
        read_deployment(tmp_path, {"DEDUP_CLONE_PROFILE": "local"})


def sla_minutes(folder: Path, lines: str) -> int:
    path = folder / "worked_example.yaml"
    path.write_text(FEED.replace("  sla_minutes: 60", lines))
    return read_feed(path).freshness.sla_minutes


@pytest.mark.parametrize("key", ["sla_minutes", "promise_minutes"])
def test_the_sla_may_have_its_deprecated_name(tmp_path: Path, key: str) -> None:
    assert sla_minutes(tmp_path, f"  {key}: 45") == 45
    with pytest.raises(ConfigurationError, match=rf"worked_example.yaml:32: \[freshness.{key}\]: .* valid integer"):
        sla_minutes(tmp_path, f"  {key}: often")


def check_interval(folder: Path, lines: str) -> int:
    (folder / "local.yaml").write_text(PROFILE + ALERTS.replace("check_interval_minutes: 3", lines))
    return read_deployment(folder, {"DEDUP_CLONE_PROFILE": "local"}).alerts.check_interval_minutes


def test_the_check_interval_may_have_its_deprecated_name(tmp_path: Path) -> None:
    assert check_interval(tmp_path, "look_every_minutes: 7") == 7


def test_a_setting_with_both_its_names_is_refused(tmp_path: Path) -> None:
    message = r"yaml:33: \[freshness.promise_minutes\] is the deprecated name of \[sla_minutes\], which is given too"
    with pytest.raises(ConfigurationError, match=message):
        sla_minutes(tmp_path, "  sla_minutes: 45\n  promise_minutes: 60")
    with pytest.raises(ConfigurationError, match=r"\[alerts.look_every_minutes\] is the deprecated name of \["):
        check_interval(tmp_path, "check_interval_minutes: 3\n  look_every_minutes: 3")


def test_an_unknown_freshness_key_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown key \[freshness.promis\]: known keys: .*sla_minutes"):
        sla_minutes(tmp_path, "  promis: 1")
