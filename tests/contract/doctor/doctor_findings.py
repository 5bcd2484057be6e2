"""Runs the doctor's checks on recorded answers of Google's APIs, and returns its findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.spark_settings import Runner
from deploy.doctor.command import run_checks
from deploy.doctor.finding import Finding, Level, LiveEnvironment
from deploy.doctor.google_api import GoogleApi
from deploy.environment_settings import DAGS, Environment, read_environment, read_profile
from deploy.terraform_lists import read_grants
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import RecordedGoogle, healthy

ROWS = yaml.safe_load((Path(__file__).parent / "faults.yaml").read_text())
WITH_TAG = f"{{column_tags: {{attr_value: {google.TAG}}}}}"
FEEDS = DAGS / "feeds"
OF_PROFILE = ("location", "google_cloud_connection")


@contextmanager
def feed_with(policies: str) -> Iterator[None]:
    """In the block there is only one feed, whose file declares these policies. `policies`: YAML."""
    text = (FEEDS / "product_attributes.yaml").read_text()
    declared = text.replace("  retention_days:", f"  policies: {policies}\n  retention_days:", 1)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        (Path(folder) / "product_attributes.yaml").write_text(declared)
        patch.setattr(f"{__name__}.FEEDS", Path(folder))
        yield


def findings(
    answers: dict[str, Any] | RecordedGoogle,
    *,
    runner: str = "serverless",
    feed_runner: str | None = None,
    notifiers: tuple[str, ...] = ("nowhere.Notifier",),
    **settings: Any,
) -> list[Finding]:
    """The findings in an environment whose APIs give these answers.

    `feed_runner`: the runner that the feed files name. The others are settings of the profile for Google Cloud; those
    that are not named here or in OF_PROFILE belong to its section `spark`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DEDUP_CLONE_PROFILE", raising=False)  # tests have the local profile
        return _findings(answers, Runner(runner), feed_runner and Runner(feed_runner), notifiers, settings)


def _findings(
    answers: Any, runner: Runner, feed_runner: Any, notifiers: Any, settings: dict[str, Any]
) -> list[Finding]:
    profile, environment, feeds = _read(FEEDS)
    of_profile = {name: settings.pop(name) for name in OF_PROFILE if name in settings}
    of_spark = {"service_account": google.SPARK, "subnetwork": "default", "cluster": "standing", **settings}
    update = {
        "spark": profile.spark.model_copy(update=of_spark),
        "runner": runner,
        "alerts": profile.alerts.model_copy(update={"notifiers": tuple(notifiers)}),
        **of_profile,
    }
    return run_checks(
        LiveEnvironment(
            GoogleApi(answers if isinstance(answers, RecordedGoogle) else RecordedGoogle(answers)),
            environment,
            profile.model_copy(update=update),
            [feed.model_copy(update={"runner": feed_runner}) for feed in feeds],
            read_grants(),
        )
    )


@cache
def _read(feeds: Path) -> tuple[Deployment, Environment, list[Feed]]:
    return read_profile(), read_environment(), [read_feed(path) for path in sorted(feeds.glob("*.yaml"))]


def of(subject: str, answers: dict[str, Any], **settings: Any) -> list[Finding]:
    return [finding for finding in findings(answers, **settings) if finding.subject == subject]


def faults(answers: dict[str, Any], **settings: Any) -> dict[str, Finding]:
    """The findings that are failures or warnings, by their subject."""
    return {f.subject: f for f in findings(answers, **settings) if f.level in (Level.FAIL, Level.WARN)}


def spoilt(changes: dict[str, Any]) -> dict[str, Any]:
    """The healthy answers with the changes of a row of `faults.yaml`."""
    answers = healthy()
    for name, change in changes.items():
        url = getattr(google, name.upper())
        if isinstance(change, int):
            answers[url] = change
        else:
            for path, value in change.items():
                _set(answers[url], path.split("."), value)
    return answers


def _set(parent: Any, path: list[str], value: Any) -> None:
    """Set the field at a path, append to the list there if the last name begins with `+`, or delete it for None."""
    *parents, last = path
    for name in parents:
        parent = parent[int(name)] if isinstance(parent, list) else parent.setdefault(name, {})
    if last.startswith("+"):
        parent.setdefault(last[1:], []).append(value)
    elif value is None:
        del parent[last]
    else:
        parent[last] = value


def granted(role: str, member: str, **condition: str) -> dict[str, Any]:
    """A binding of an IAM policy. `condition`: the fields of its condition, if it has one."""
    return {"role": role, "members": [member], **({"condition": condition} if condition else {})}
