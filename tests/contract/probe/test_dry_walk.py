"""A dry walk through docs/google-cloud.md: what it says to run is run in its order, from an empty project.

Stand-in, storage emulator and recorded answers are the project. `terraform apply` puts there what Terraform makes
(tests/unit/deploy compares its names, roles and APIs with those that the doctor looks for).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google.auth
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from deploy.doctor import __main__ as doctor
from deploy.doctor.google_api import GoogleApi
from deploy.environment_settings import read_environment, read_profile
from deploy.probe import __main__ as probe
from deploy.probe.all_assumptions import all_assumptions
from deploy.probe.probe_dataset import Clients
from deploy.release import __main__ as release
from tests.contract.doctor import answers as live
from tests.contract.doctor.answers import RecordedGoogle, healthy
from tests.contract.gcloud_storage import Commands
from tests.shared.documented_commands import commands

BY_HAND = "gcloud services enable "
FIRST_ASSUMPTION = "create-if-absent"


class Walk:
    """The commands that somebody types, and the project as far as they have made it."""

    def __init__(self, clients: Clients, report: Path) -> None:
        self.clients, self.report = clients, report
        self.enabled: set[str] = set()
        self.has_resources = False
        self.ended: list[tuple[str, int]] = []

    def answers(self) -> dict[str, Any]:
        """What Google's APIs say now about the project."""
        if not self.has_resources:
            services = [{"config": {"name": name}} for name in sorted(self.enabled)]
            return {live.SERVICES: {"services": services}}
        found = healthy()
        if not self.bucket(read_environment().bucket).blob("dags/spark_code.json").exists():
            del found[live.SPARK_CODE]
        return found

    def bucket(self, name: str) -> storage.Bucket:
        return self.clients.storage.bucket(name)

    def type(self, command: str) -> None:
        steps: dict[str, Callable[[list[str]], None]] = {
            BY_HAND: lambda words: self.enabled.update(word for word in words if word.endswith(".googleapis.com")),
            "make probe": self.probe,
            "terraform apply": self.apply,
            "make deploy": self.deploy,
            "make doctor": self.doctor,
        }
        for start, step in steps.items():
            if command.startswith(start):
                step(shlex.split(command))

    def record(self, command: str, status: int) -> None:
        self.ended.append((command, status))

    def probe(self, words: list[str]) -> None:
        options = dict(word.split("=") for word in words[2:])
        given = ["--project", options["PROJECT"], "--location", options["LOCATION"], "--report", str(self.report)]
        self.record("probe", probe.main(given))

    def apply(self, _: list[str]) -> None:
        for name in (read_environment().bucket, read_profile().state_bucket):
            self.clients.storage.create_bucket(name)
        self.has_resources = True

    def deploy(self, words: list[str]) -> None:
        is_plan = "PLAN=1" in words
        self.record("plan" if is_plan else "deploy", release.main(["--plan"] if is_plan else ["--yes"]))

    def doctor(self, _: list[str]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(google.auth, "default", lambda **_: (AnonymousCredentials(), "my-project"))
            patch.setattr(doctor, "GoogleApi", lambda _: GoogleApi(RecordedGoogle(self.answers())))
            self.record("doctor", doctor.main())


@pytest.fixture
def walk(clients: Clients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Walk:
    monkeypatch.delenv("DEDUP_CLONE_PROFILE", raising=False)
    walk = Walk(clients, tmp_path / "probe.md")
    profile = read_profile()
    cluster = profile.spark.cluster.model_copy(update={"name": "standing"})
    spark = {"service_account": live.SPARK, "subnetwork": "default", "cluster": cluster}
    filled_in = profile.model_copy(update={"spark": profile.spark.model_copy(update=spark)})
    monkeypatch.setattr(doctor, "read_profile", lambda: filled_in)
    monkeypatch.setattr(probe, "live_clients", lambda *_: clients)
    first = [assumption for assumption in all_assumptions() if assumption.name == FIRST_ASSUMPTION]
    monkeypatch.setattr(probe, "all_assumptions", lambda: first)
    monkeypatch.setattr(release, "run_command", Commands(clients.storage))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", clients.storage._connection.API_BASE_URL)
    return walk


def faults(printed: str) -> set[str]:
    """The subjects that the doctor's last report says are missing."""
    return set(re.findall(r"^FAIL +(.+?):", printed, re.MULTILINE | re.IGNORECASE))


@pytest.mark.exhaustive
def test_the_commands_of_the_page_lead_from_an_empty_project_to_a_deployed_environment(
    walk: Walk, capsys: pytest.CaptureFixture[str]
) -> None:
    walk.type("make deploy PLAN=1")
    walk.type("make doctor")
    assert walk.ended == [("plan", 1), ("doctor", 2)], "before its time each says what is missing"
    assert len(faults(capsys.readouterr().out)) > 5
    walk.ended.clear()
    for command in commands():
        walk.type(command)
    assert [command for command, _ in walk.ended] == ["probe", "plan", "deploy", "doctor"]
    assert [status for command, status in walk.ended if command != "doctor"] == [0, 0, 0]
    assert FIRST_ASSUMPTION in walk.report.read_text()
    assert faults(capsys.readouterr().out) == {"alerts"}, "only who is told of incidents cannot be known"
    assert walk.bucket(read_environment().bucket).blob("dags/feeds/product_attributes.yaml").exists()
