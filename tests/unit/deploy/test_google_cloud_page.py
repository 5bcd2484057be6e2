"""A dry walk from an empty project through docs/google-cloud.md: no command comes before what it needs."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from deploy.environment_settings import REPOSITORY
from deploy.required_apis import read_required_apis
from tests.shared.documented_commands import PAGE, commands

TERRAFORM = REPOSITORY / "deploy" / "terraform"
# Pattern of a command -> what must be there before it, what is there after it. A command of no pattern fails the walk.
STEPS: list[tuple[str, set[str], set[str]]] = [
    (r"gcloud auth login", set(), {"login"}),
    (r"gcloud auth application-default login", {"login"}, {"credentials"}),
    (r"gcloud auth application-default set-quota-project MY-PROJECT", {"credentials"}, {"quota project"}),
    (r"gcloud services enable .*", {"login"}, set()),
    (r"make setup", set(), {"python environment"}),
    (
        r"make probe .*",
        {
            "python environment",
            "credentials",
            "quota project",
            "bigquery.googleapis.com",
            "bigquerystorage.googleapis.com",
            "storage.googleapis.com",
        },
        set(),
    ),
    (r"cd \S+", set(), set()),
    (r"terraform init", set(), {"terraform"}),
    (
        r"terraform apply .*",
        {"terraform", "credentials", "cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com"},
        {"resources"},
    ),
    (r"terraform output -raw environment_yaml > ../environment.yaml", {"resources"}, {"environment.yaml"}),
    (r"terraform output -raw profile", {"resources"}, {"profile"}),
    (r"make deploy( PLAN=1)?", {"python environment", "login", "environment.yaml", "profile"}, {"release"}),
    (r"make doctor", {"python environment", "credentials", "environment.yaml", "profile"}, set()),
    (r"gcloud storage cp -r snapshot_id=1 .*", {"release"}, set()),
    (r"echo -n \| gcloud storage cp - .*", {"release"}, set()),
]


def missing_before(text: str) -> list[str]:
    """What a command needs and nothing above it made."""
    there, missing = set[str](), []
    for command in commands(text):
        if command.startswith("gcloud services enable"):
            there |= {word for word in command.split() if word.endswith(".googleapis.com")}
        (step,) = [step for step in STEPS if re.fullmatch(step[0], command)]
        missing += [f"{command}: {need}" for need in sorted(step[1] - there)]
        there |= step[2]
    return missing


def test_no_step_is_out_of_order() -> None:
    assert missing_before(PAGE) == []


@pytest.mark.parametrize("left_out", ["gcloud auth application-default login", "make setup", "terraform init"])
def test_a_step_that_is_left_out_is_missed(left_out: str) -> None:
    assert missing_before(PAGE.replace(f"{left_out}\n", ""))


def test_before_the_profile_is_filled_in_the_probe_is_told_where_to_go() -> None:
    (probe,) = [command for command in commands() if command.startswith("make probe")]
    assert "PROJECT=MY-PROJECT LOCATION=europe-west1" in probe


def test_commands_of_make_run_what_they_say() -> None:
    for command in commands():
        if command.startswith("make "):
            done = subprocess.run(
                [*shlex.split(command), "--dry-run"], cwd=REPOSITORY, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            for variable, value in re.findall(r"([A-Z]+)=(\S+)", command):
                assert f"--{variable.lower()}" in done.stdout, command
                assert value == "1" or value in done.stdout, command


def test_commands_of_make_need_no_java() -> None:
    """The page asks for none. Java is found or not; `require.sh` without `python` would refuse a machine without it."""
    done = subprocess.run(["make", "install", "--dry-run"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert re.findall(r"require\.sh(.*?)\)", done.stdout) == [" python"]
    assert re.findall(r".*\bjava\b", done.stdout) == ["{ ! command -v java"]


def test_variables_and_outputs_of_terraform_exist() -> None:
    text = "\n".join(path.read_text() for path in TERRAFORM.glob("*.tf"))
    for command in (*commands(), *re.findall(r"`(-var [^`]+)`", PAGE)):
        for variable in re.findall(r"-var (\w+)=", command):
            assert f'variable "{variable}"' in text
        for output in re.findall(r"terraform output -raw (\w+)", command):
            assert f'output "{output}"' in text


def test_apis_that_are_enabled_by_hand_are_those_that_come_before_terraform() -> None:
    (enable,) = [command for command in commands() if command.startswith("gcloud services enable")]
    by_hand = {word for word in enable.split() if word.endswith(".googleapis.com")}
    assert by_hand - {"serviceusage.googleapis.com"} <= {service.api for service in read_required_apis()}
