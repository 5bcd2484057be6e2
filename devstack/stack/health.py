"""Waiting until the parts of the stack are healthy, with a line for each and the log of one that is not."""

import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from devstack.http_calls import Unreachable, call
from devstack.stack.errors import PartFailed
from devstack.stack.layout import Layout
from devstack.stack.programs import Program
from devstack.stack.supervision import GAVE_UP_STATES, Running, Supervisor

LOOK_EVERY_S = 0.25
LOG_LINES_SHOWN = 15

Say = Callable[[str], None]


def is_healthy(program: Program, running: Running) -> bool:
    """One look at one part. A heartbeat from before its process started is one that an earlier process left."""
    if program.health_command:
        return running.pid != 0 and subprocess.run(program.health_command, capture_output=True).returncode == 0
    if running.state != "RUNNING":
        # What answers while the part's own process is down is some other program on its port.
        return False
    try:
        answer = call("GET", program.health_url, timeout_s=5.0)
    except Unreachable:
        return False
    if not answer.ok or program.heartbeat is None:
        return answer.ok
    part = answer.json().get(program.heartbeat) or {}
    beat = part.get(f"latest_{program.heartbeat}_heartbeat")
    return part.get("status") == "healthy" and beat is not None and datetime.fromisoformat(beat) >= running.started_at


def last_lines(path: Path, count: int = LOG_LINES_SHOWN) -> list[str]:
    if not path.exists():
        return []
    return path.read_text(errors="replace").splitlines()[-count:]


def failure(layout: Layout, program: Program, reason: str) -> PartFailed:
    """The error of a part that did not start: why, the end of its log, and where the rest is."""
    log = layout.log_of(program.name)
    lines = "\n".join(f"    {line}" for line in last_lines(log)) or "    (empty)"
    return PartFailed(f"{program.name} {reason}. The end of its log:\n{lines}\n  The whole log: {log}")


def wait(layout: Layout, supervisor: Supervisor, programs: tuple[Program, ...], *, timeout_s: float, say: Say) -> None:
    """Returns when all programs are healthy. Raises PartFailed when one gave up or the time is over."""
    started = time.monotonic()
    waiting = list(programs)
    while waiting:
        parts = supervisor.parts()
        for program in tuple(waiting):
            seconds = time.monotonic() - started
            if is_healthy(program, parts[program.name]):
                say(f"  {program.name:<14} healthy after {seconds:5.1f} s   {program.address}".rstrip())
                waiting.remove(program)
            elif parts[program.name].state in GAVE_UP_STATES:
                raise failure(layout, program, "does not start")
            elif seconds > timeout_s:
                raise failure(layout, program, f"is not healthy after {timeout_s:.0f} s")
        if waiting:
            time.sleep(LOOK_EVERY_S)
