"""`make deploy` as it is typed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import requests
from google.api_core.exceptions import Forbidden, RetryError, ServiceUnavailable, TooManyRequests
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError
from google.cloud import storage

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.operations.feed_plan import FeedPlan
from deploy.__main__ import main
from deploy.command_errors import run_command_line
from deploy.environment_settings import REPOSITORY, environment_file, read_environment, read_profile
from deploy.release import command as release_command
from deploy.release.release import Release


@pytest.fixture(autouse=True)
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile without a variable; tests have the local one."""
    monkeypatch.delenv("DEDUP_CLONE_PROFILE", raising=False)


@pytest.fixture
def live(storage_address: str, monkeypatch: pytest.MonkeyPatch) -> storage.Client:
    """The buckets that the examples of settings name."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{storage_address}")
    client = storage.Client(project="local-dev", credentials=AnonymousCredentials())
    known = {bucket.name for bucket in client.list_buckets()}
    for name in {read_environment().bucket, read_profile().state_bucket} - known:
        client.create_bucket(name)
    return client


@pytest.mark.parametrize(("options", "status", "shown"), [(["--plan"], 0, "0 to delete"), ([], 1, "YES=1")])
def test_without_a_yes_nothing_is_changed(
    live: storage.Client, capsys: pytest.CaptureFixture[str], options: list[str], status: int, shown: str
) -> None:
    assert main(["release", *options]) == status
    assert shown in capsys.readouterr().out
    assert list(live.list_blobs(read_environment().bucket)) == []


def test_what_stops_publishes_must_be_accepted_when_nobody_is_asked(
    live: storage.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sales = FeedPlan("sales", "generation 3 is live", problems=("keys is [a], it was [b]",))
    plans = [sales, FeedPlan("visits", "generation 1 is live")]
    monkeypatch.setattr(release_command, "open_live_clients", lambda profile: None)
    monkeypatch.setattr(release_command, "plan_all", lambda clients, files: plans)
    monkeypatch.setattr(Release, "apply", lambda release, plan, take_over: print("applied"))
    assert main(["release", "--yes"]) == 1
    shown = capsys.readouterr().out
    assert "keys is [a], it was [b]" in shown
    assert "WITH_PROBLEMS=1" in shown
    assert "applied" not in shown
    assert main(["release", "--yes", "--with-problems"]) == 0
    assert "applied" in capsys.readouterr().out
    plans.pop(0)
    assert main(["release", "--yes"]) == 0


def test_a_profile_is_released_to_its_own_environment(
    live: storage.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(REPOSITORY / "dags" / "profiles", tmp_path / "dags" / "profiles")
    (tmp_path / "deploy").mkdir()
    production = environment_file().read_text()
    staging = production.replace(f"bucket: {read_environment().bucket}", "bucket: bucket-of-staging")
    (tmp_path / "deploy" / "environment.yaml").write_text(production)
    (tmp_path / "deploy" / "environment.staging.yaml").write_text(staging)
    monkeypatch.setattr("deploy.environment_settings.REPOSITORY", tmp_path)
    monkeypatch.setenv("DEDUP_CLONE_PROFILE", "staging")
    assert main(["release", "--plan"]) == 1
    assert "[bucket-of-staging] cannot be listed" in capsys.readouterr().err


LOST = requests.exceptions.ConnectionError("host unreachable")


@pytest.mark.parametrize(
    ("error", "cause", "next_step"),
    [
        (DefaultCredentialsError("no credentials"), None, "gcloud auth application-default login"),
        (RefreshError("expired"), None, "gcloud auth application-default login"),
        (Forbidden("no right"), None, "make doctor"),
        (ServiceUnavailable("busy"), None, "again in some minutes"),
        (TooManyRequests("quota"), None, "again in some minutes"),
        (LOST, None, "check the network"),
        (TransportError(LOST), LOST, "check the network"),
        (RefreshError("no token"), TransportError(LOST), "check the network"),
        (RetryError("timeout", LOST), LOST, "check the network"),
    ],
)
def test_an_error_is_reported_without_a_traceback_and_with_its_next_step(
    error: Exception, cause: Exception | None, next_step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise error from cause

    assert run_command_line("deploy", fail) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"deploy: {error}\n")
    assert next_step in printed.splitlines()[-1]


def test_a_wrong_key_of_the_environment_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "environment.yaml"
    file.write_text(environment_file().read_text().replace("bucket:", "buckett:"))
    with pytest.raises(
        ConfigurationError, match=r"environment\.yaml:\d+: unknown key \[buckett\]: did you mean \[bucket\]"
    ):
        read_environment(file)
