"""The commands that the doctor prints exist: gcloud itself knows every verb and flag of them."""

from __future__ import annotations

import runpy
import shlex
from pathlib import Path

from tests.contract.doctor.answers import healthy
from tests.contract.doctor.doctor_findings import ROWS, WITH_TAG, feed_with, findings, spoilt
from tests.shared.required_tools import require_gcloud

LAST_WORDS = {"start", "update", "create", "list", "describe", "enable", "relocate", "run", "login"}
LAST_WORDS |= {"add-iam-policy-binding", "remove-iam-policy-binding"}


def printed_commands() -> set[str]:
    """Of every fault that the tests know, and of what does not exist."""
    with feed_with(WITH_TAG):
        found = findings(dict.fromkeys(healthy(), 404))
        for changes, _, _, _, *settings in ROWS["faults"]:
            found += findings(spoilt(changes), **(settings[0] if settings else {}))
    lines = (line for finding in found for line in finding.command.splitlines())
    return {command for line in lines for command in line.split(" && ") if command.startswith("gcloud ")}


def test_every_verb_and_flag_is_in_gclouds_list_of_its_commands() -> None:
    """The list that its completion in shells uses. A flag that can be switched off is there once, as its positive."""
    installed = Path(require_gcloud()).resolve().parents[1]
    tree = runpy.run_path(str(installed / "data" / "cli" / "gcloud_completions.py"))["STATIC_COMPLETION_CLI_TREE"]
    commands = printed_commands()
    assert len(commands) > 20
    for command in commands:
        found, words = tree, shlex.split(command)[1:]
        last = next(number for number, word in enumerate(words) if word in LAST_WORDS)
        for word in words[: last + 1]:
            assert word in found["commands"], command
            found = found["commands"][word]
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        known = {*tree["flags"], *found["flags"]}
        assert {flag for flag in flags if not known & {flag, flag.replace("--no-", "--")}} == set(), command
