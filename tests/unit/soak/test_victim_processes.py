"""The processes to kill are found among the ancestors of a sender; `kill` returns after the process has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from soak import victim_processes
from testkit.errors import HarnessError
from testkit.proxied_stack import ProxiedStack


def test_a_killed_process_has_ended_when_kill_returns() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        victim_processes.kill(psutil.Process(child.pid))
        assert child.wait() == -9


def test_a_task_is_found_below_a_worker_and_a_worker_itself_is_no_task() -> None:
    scheduler = SimpleNamespace(pid=os.getpid())  # this process in the scheduler's place
    stack = cast(ProxiedStack, SimpleNamespace(part_states=lambda: {"scheduler": scheduler}))
    spawn_and_wait = (
        "import subprocess, sys; "
        "child = subprocess.Popen([sys.executable, '-c', 'input()']); print(child.pid, flush=True); child.wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", spawn_and_wait], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout
        task = psutil.Process(int(worker.stdout.readline()))
        try:
            assert victim_processes.find_task_process(stack, task) == task
            with pytest.raises(HarnessError, match="is a worker of LocalExecutor"):
                victim_processes.find_task_process(stack, psutil.Process(worker.pid))
        finally:
            task.kill()
