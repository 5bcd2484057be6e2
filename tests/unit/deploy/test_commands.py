"""Commands: what `make` makes of profiles and exit statuses, and who logs in to which service."""

from __future__ import annotations

import subprocess
from pathlib import Path

import google.auth
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery, storage

from deploy.__main__ import main
from deploy.environment_settings import REPOSITORY, read_profile
from deploy.live_services import open_live_clients


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def make(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`make` with another program in place of Python, and an environment that needs no installation."""
    # A make below another make, as in `make test`, prints the folders that it enters and leaves.
    command = ["make", "--no-print-directory", *words, f"PY={python}", "STAMP=requirements/dev.lock"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("status", "fails"), [(0, False), (2, False), (1, True)])
def test_a_plan_with_changes_does_not_fail(tmp_path: Path, status: int, fails: bool) -> None:
    assert (make(put(tmp_path / "python", f"exit {status}"), "plan").returncode != 0) is fails


def test_a_retention_is_not_approved_for_all_feeds_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--apply"]) == 1
    assert "add `--feed`" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["deploy", "doctor", "plan"])
def test_a_command_gets_the_profile_that_is_named(tmp_path: Path, target: str) -> None:
    shown = make(put(tmp_path / "python", 'echo "profile $DEDUP_CLONE_PROFILE"'), target, "PROFILE=staging").stdout
    assert shown.splitlines()[-1] == "profile staging"


# -- Each of Google's services gets the user's credentials, unless its own variable names a local server --

VARIABLES = {storage.Client: "STORAGE_EMULATOR_HOST", bigquery.Client: "BIGQUERY_EMULATOR_HOST"}


class Login(AnonymousCredentials):
    """The credentials of `gcloud auth application-default login`."""


@pytest.mark.parametrize("local", [(), (storage.Client,), (bigquery.Client,), (storage.Client, bigquery.Client)])
def test_a_service_is_called_without_a_login_only_if_it_is_local(
    local: tuple[type, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for service, variable in VARIABLES.items():
        monkeypatch.delenv(variable, raising=False)
        if service in local:
            monkeypatch.setenv(variable, "http://127.0.0.1:1")
    monkeypatch.setattr(google.auth, "default", lambda **_: (Login(), "my-project"))
    clients = open_live_clients(read_profile())
    warehouse = clients.warehouse._client
    buckets = {store._bucket.client for store in (clients.state, clients.landing)}
    for client in (warehouse, *buckets):
        expected = AnonymousCredentials if type(client) in local else Login
        assert type(client._credentials) is expected
