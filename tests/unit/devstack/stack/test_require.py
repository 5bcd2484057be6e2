"""devstack/require.sh on machines that lack something, played by a PATH of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from devstack.stack.layout import CHECKOUT

SCRIPT = CHECKOUT / "devstack" / "require.sh"
TOOLS = ("sh", "sed", "head", "printf")
GOOD_JAVA = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
GOOD_PYTHON = "exit 0"


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that is the whole PATH, with nothing missing."""
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    put(tmp_path, "make", "exit 0")
    put(tmp_path, "java", GOOD_JAVA)
    put(tmp_path, "python3.12", GOOD_PYTHON)
    return tmp_path


def run(machine: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(machine), **variables}
    return subprocess.run(
        [str(machine / "sh"), str(SCRIPT), *arguments], env=environment, capture_output=True, text=True
    )


def test_machine_with_everything_gets_its_python(machine: Path) -> None:
    done = run(machine)
    assert (done.returncode, done.stdout, done.stderr) == (0, "python3.12\n", "")


def test_first_usable_python_is_taken(machine: Path) -> None:
    put(machine, "python3.11", "exit 1")
    assert run(machine).stdout == "python3.12\n"
    put(machine, "python3.11", GOOD_PYTHON)
    assert run(machine).stdout == "python3.11\n"


def test_chosen_python_is_taken_or_refused_never_replaced(machine: Path) -> None:
    put(machine, "mine", GOOD_PYTHON)
    assert run(machine, PYTHON="mine").stdout == "mine\n"
    refused = run(machine, PYTHON="other")
    assert refused.returncode == 1
    assert "[other]" in refused.stderr


@pytest.mark.parametrize("tool", ["make", "java", "python3.12"])
def test_each_missing_tool_is_named_in_one_line(machine: Path, tool: str) -> None:
    (machine / tool).unlink()
    done = run(machine)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert tool.removesuffix("3.12") in done.stderr.lower()


@pytest.mark.parametrize(
    ("says", "usable"),
    [
        ('openjdk version "21" 2023-09-19', True),
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "11.0.2" 2019-01-15', False),
        ('java version "1.8.0_292"', False),
        ("nonsense", False),
    ],
)
def test_java_must_be_new_enough(machine: Path, says: str, usable: bool) -> None:
    put(machine, "java", f"echo '{says}' >&2")
    assert (run(machine).returncode == 0) is usable


def test_java_home_wins_over_the_path(machine: Path, tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    assert str(home) in run(machine, JAVA_HOME=str(home)).stderr
    put(home / "bin", "java", GOOD_JAVA)
    (machine / "java").unlink()
    assert run(machine, JAVA_HOME=str(home)).returncode == 0


def test_the_real_machine_of_the_tests_passes() -> None:
    done = subprocess.run(["sh", str(SCRIPT)], env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    subprocess.run([done.stdout.strip(), "-c", "import venv"], check=True)


def test_commands_for_google_cloud_need_no_java(machine: Path) -> None:
    (machine / "java").unlink()
    assert "Java 17" in run(machine).stderr
    assert run(machine, "python").stdout == "python3.12\n"


def test_make_setup_lists_no_packages_and_says_what_takes_long(
    machine: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With a Python that does nothing but list packages, as uv does unless it is told to be quiet."""
    binaries = tmp_path_factory.mktemp("venv") / "bin"
    binaries.mkdir()
    put(binaries, "python", 'case "$*" in *--quiet*) ;; *"uv pip sync"*) echo " + package==1" ;; esac')
    command = ("make", "--no-print-directory", "install", f"VENV={binaries.parent}")
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    announced = [line.split()[0] for line in (done.stdout + done.stderr).splitlines()]
    assert announced == ["Installing", "Archiving"]
    assert (binaries.parent / "installed.lock").read_bytes() == (CHECKOUT / "requirements" / "dev.lock").read_bytes()
