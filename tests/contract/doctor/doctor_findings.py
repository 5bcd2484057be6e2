"""Runs the doctor's checks on recorded answers of Google's APIs, and returns its findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dedup_clone.settings.feed import read_feed
from dedup_clone.settings.spark_settings import Runner
from deploy.doctor import __main__ as doctor
from deploy.doctor.all_checks import run_checks
from deploy.doctor.finding import Finding, Level, LiveEnvironment
from deploy.doctor.google_api import GoogleApi
from deploy.environment_settings import read_environment, read_profile
from deploy.grants import read_grants
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import RecordedGoogle

WITH_TAG = f"{{column_tags: {{attr_value: {google.TAG}}}}}"


@contextmanager
def feed_with(policies: str) -> Iterator[None]:
    """In the block there is only one feed, whose file declares these policies. `policies`: YAML."""
    text = (doctor.FEEDS / "product_attributes.yaml").read_text()
    declared = text.replace("  retention_days:", f"  policies: {policies}\n  retention_days:", 1)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        (Path(folder) / "product_attributes.yaml").write_text(declared)
        patch.setattr(doctor, "FEEDS", Path(folder))
        yield


def findings(
    answers: dict[str, Any] | RecordedGoogle,
    runner: Runner = Runner.SERVERLESS,
    *,
    location: str = "europe-west1",
    webhooks: tuple[str, ...] = ("on_call",),
    organization_views: bool = False,
    feed_runner: Runner | None = None,
    **settings: Any,
) -> list[Finding]:
    """The findings in an environment whose APIs give these answers.

    `feed_runner`: the runner that the feed files name. `settings`: more settings of the profile's section `spark`. The
    other arguments are settings of the profile.
    """
    profile = read_profile()
    cluster = profile.spark.cluster.model_copy(update={"name": "standing"})
    spark_settings = {"service_account": google.SPARK, "subnetwork": "default", "cluster": cluster, **settings}
    spark = profile.spark.model_copy(update=spark_settings)
    alerts = profile.alerts.model_copy(update={"webhooks": webhooks})
    live = LiveEnvironment(
        GoogleApi(answers if isinstance(answers, RecordedGoogle) else RecordedGoogle(answers)),
        read_environment(),
        profile.model_copy(
            update={
                "spark": spark,
                "runner": runner,
                "location": location,
                "alerts": alerts,
                "organization_views": organization_views,
            }
        ),
        [read_feed(path).model_copy(update={"runner": feed_runner}) for path in sorted(doctor.FEEDS.glob("*.yaml"))],
        read_grants(),
    )
    return run_checks(live)


def faults(answers: dict[str, Any]) -> dict[str, Finding]:
    """The findings that are failures or warnings, by their subject."""
    return {f.subject: f for f in findings(answers) if f.level in (Level.FAIL, Level.WARN)}


def set_at(answers: dict[str, Any], url: str, path: str, value: Any) -> None:
    """Set a field of the answer from `url`. `path`: the names of the field's parents and of the field, with dots."""
    *parents, last = path.split(".")
    parent = answers[url]
    for name in parents:
        parent = parent.setdefault(name, {})
    parent[last] = value


def granted(role: str, member: str, **condition: str) -> dict[str, Any]:
    """A binding of an IAM policy. `condition`: the fields of its condition, if it has one."""
    return {"role": role, "members": [member], **({"condition": condition} if condition else {})}
