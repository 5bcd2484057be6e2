import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from devstack.stack import processes
from devstack.stack.stack_errors import StackError
from testkit.waiting import wait_for

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True).wait()"

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts Python code as a process of the stack in tmp_path, and returns when it runs."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, **variables: str) -> subprocess.Popen[str]:
        environment = {**os.environ, processes.STACK_VARIABLE: str(tmp_path), **variables}
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield run
    for process in started:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        for one in (*children, process):
            one.kill()
        process.wait()


def test_finds_a_process_that_left_session_and_group(tmp_path: Path, start: Start) -> None:
    process = start(SLEEP)
    assert [found.pid for found in processes.of_stack(tmp_path)] == [process.pid]


@pytest.mark.skipif(os.geteuid() != 0, reason="PostgreSQL has our own user where we are not root")
def test_finds_the_database_though_its_environment_is_closed_to_root(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in containers. Programs of others are spared, even those that are called alike or look into the folder."""
    server = tmp_path / "postgres"
    server.write_text("#!/bin/sh\necho up\nsleep 600 & wait\n")
    server.chmod(0o755)
    folders = [tmp_path / "local", tmp_path / "local2"]
    commands = [[server, "-D", folder / "data"] for folder in folders] + [["tail", "-f", "/dev/null", folders[0] / "x"]]
    (folders[0]).mkdir()
    (folders[0] / "x").touch()
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for command in commands]

    def closed(process: psutil.Process) -> dict[str, str]:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "environ", closed)
    try:
        assert all(other.stdout.readline() for other in others[:2] if other.stdout)
        assert others[0].pid in [found.pid for found in processes.of_stack(folders[0])]
        assert others[1].pid not in [found.pid for found in processes.of_stack(folders[0])]
        assert others[2].pid not in [found.pid for found in processes.of_stack(folders[0])]
    finally:
        for other in others:
            for one in (*psutil.Process(other.pid).children(), other):
                one.kill()
            other.communicate()


def test_finds_a_child_that_dropped_the_marker(tmp_path: Path, start: Start) -> None:
    code = (
        "import os, subprocess, sys; env = {k: v for k, v in os.environ.items() if k != 'DEDUP_CLONE_STACK'}; "
        f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}], env=env).wait()"
    )
    parent = start(code)
    assert len(processes.of_stack(tmp_path)) == 2
    assert parent.pid in [found.pid for found in processes.of_stack(tmp_path)]


def test_spares_processes_of_another_stack(tmp_path: Path, start: Start) -> None:
    start(SLEEP, **{processes.STACK_VARIABLE: str(tmp_path / "other")})
    assert processes.of_stack(tmp_path) == []


def test_sweep_ends_everything_even_what_ignores_the_request(tmp_path: Path, start: Start) -> None:
    stubborn, parent = start(STUBBORN), start(PARENT)
    assert processes.sweep(tmp_path, timeout_s=0.3) == 3
    assert processes.of_stack(tmp_path) == []
    assert stubborn.poll() is not None
    assert parent.poll() is not None


@pytest.mark.timeout(20)  # an endless sweep must not wait for the timeout of all tests
def test_sweep_gives_up_on_a_process_that_survives_being_killed(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn = start(STUBBORN)
    monkeypatch.setattr(psutil.Process, "kill", lambda process: None)
    with pytest.raises(StackError, match=rf"Processes \[{stubborn.pid}\] of the stack"):
        processes.sweep(tmp_path, timeout_s=0.05)


def test_sweep_spares_ourselves_when_the_marker_is_exported(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from devstack.stack.processes import sweep; "
    code += "print(sweep(Path(sys.argv[1]), 1))"
    environment = {**os.environ, processes.STACK_VARIABLE: str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"


def test_cutting_tasks_off_ends_all_below_the_scheduler_and_leaves_it_running(tmp_path: Path, start: Start) -> None:
    scheduler = start(PARENT)
    with processes.running_tasks_killed(scheduler.pid):
        wait_for(lambda: psutil.Process(scheduler.pid).status() == psutil.STATUS_STOPPED, "a stopped scheduler", 30)
    # Its only child has gone, so it is no longer held up by it and ends by itself.
    assert scheduler.wait(timeout=30) == 0


def test_cutting_tasks_off_without_a_scheduler_does_nothing() -> None:
    with processes.running_tasks_killed(0):
        assert psutil.Process().status() != psutil.STATUS_STOPPED
