"""The commands that the doctor prints exist: gcloud itself knows every verb and flag of them."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import healthy
from tests.contract.doctor.doctor_findings import WITH_TAG, feed_with, findings, set_at
from tests.contract.doctor.fault_cases import CASES

TREE = Path(shutil.which("gcloud") or "").resolve().parent.parent / "data" / "cli" / "gcloud_completions.py"

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="the tool gcloud is not installed")


def printed_commands() -> set[str]:
    """Of every fault that the tests know, of missing roles, and of what does not exist."""
    spoilt = [dict.fromkeys(healthy(), 404)]
    for url, path, value, *_ in CASES:
        spoilt.append(healthy())
        set_at(spoilt[-1], url, path, value)
    intruder = {"role": "roles/storage.objectUser", "members": ["serviceAccount:x@y.iam.gserviceaccount.com"]}
    policies = (google.PROJECT_POLICY, google.FOLDER_POLICY, google.ORGANIZATION_POLICY, f"{google.LANDING}/iam")
    for url in (*policies, google.SPARK_POLICY):
        spoilt.append(healthy())
        spoilt[-1][url] = {"bindings": [] if url == google.SPARK_POLICY else [intruder]}
    with feed_with(WITH_TAG):
        found = [finding.command for answers in spoilt for finding in findings(answers)]
    return {line for command in found for line in command.splitlines() if line.startswith("gcloud ")}


def printed_verbs() -> dict[str, set[str]]:
    """Verb -> the flags that it is printed with."""
    flags: dict[str, set[str]] = {}
    for command in printed_commands():
        words = shlex.split(command)[1:]
        lasts = ("start", "update", "create", "list", "describe", "enable", "relocate", "run")
        lasts = (*lasts, "add-iam-policy-binding", "remove-iam-policy-binding")
        last = next(number for number, word in enumerate(words) if word in lasts)
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        flags.setdefault(" ".join(words[: last + 1]), set()).update(used)
    assert len(flags) > 5
    return flags


def unknown(used: set[str], known: set[str]) -> set[str]:
    """A flag that can be switched off may be listed once, as its positive."""
    return {flag for flag in used if flag not in known and flag.replace("--no-", "--") not in known}


@pytest.mark.skipif(not TREE.is_file(), reason="gcloud has no list of its commands here")
def test_every_verb_and_flag_is_in_gclouds_list_of_its_commands() -> None:
    """The list that its completion in shells uses."""
    tree = runpy.run_path(str(TREE))["STATIC_COMPLETION_CLI_TREE"]
    for verb, used in printed_verbs().items():
        found = tree
        for word in verb.split():
            assert word in found["commands"], verb
            found = found["commands"][word]
        assert unknown(used, {*tree["flags"], *found["flags"]}) == set(), verb


@pytest.mark.exhaustive
def test_every_verb_and_flag_is_in_gclouds_help(tmp_path: Path) -> None:
    for verb, used in printed_verbs().items():
        environment = {**os.environ, "CLOUDSDK_CONFIG": str(tmp_path), "CLOUDSDK_CORE_DISABLE_PROMPTS": "1"}
        done = subprocess.run(
            ["gcloud", *verb.split(), "--help"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, verb
        assert unknown(used, set(re.findall(r"--[a-z][a-z0-9-]*", done.stdout))) == set(), verb
