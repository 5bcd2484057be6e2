"""`kill` returns after the process has ended."""

from __future__ import annotations

import subprocess
import sys

import psutil

from soak import victim_processes


def test_a_killed_process_has_ended_when_kill_returns() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        victim_processes.kill(psutil.Process(child.pid))
        assert child.wait() == -9
