"""Checks the health of the stack's parts, and waits until all of them are healthy."""

import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from devstack.http_calls import Unreachable, call
from devstack.stack.layout import Layout
from devstack.stack.programs import Program
from devstack.stack.stack_errors import PartFailed
from devstack.stack.supervisord import GAVE_UP_STATES, PartState, Supervisor

POLL_INTERVAL_S = 0.25
LOG_LINES_SHOWN = 15

Log = Callable[[str], None]


def is_healthy(program: Program, state: PartState) -> bool:
    """Whether a part runs and is healthy now.

    A heartbeat counts only if it is newer than the start of the part's process, else it is that of an earlier process.
    """
    if program.health_command:
        return state.pid != 0 and subprocess.run(program.health_command, capture_output=True).returncode == 0
    if state.state != "RUNNING":
        # While the part's process is down, another program may answer on its port.
        return False
    try:
        answer = call("GET", program.health_url, timeout_s=5.0)
    except Unreachable:
        return False
    if not answer.ok or program.heartbeat is None:
        return answer.ok
    part = answer.json().get(program.heartbeat) or {}
    beat = part.get(f"latest_{program.heartbeat}_heartbeat")
    return part.get("status") == "healthy" and beat is not None and datetime.fromisoformat(beat) >= state.started_at


def last_lines(path: Path, count: int = LOG_LINES_SHOWN) -> list[str]:
    if not path.exists():
        return []
    return path.read_text(errors="replace").splitlines()[-count:]


def failure(layout: Layout, program: Program, reason: str) -> PartFailed:
    """The error for a part that did not start.

    Its message has the end of the part's log and the path of the whole log.
    """
    log = layout.log_of(program.name)
    lines = "\n".join(f"    {line}" for line in last_lines(log)) or "    (empty)"
    return PartFailed(f"{program.name} {reason}. The end of its log:\n{lines}\n  The whole log: {log}")


def wait(layout: Layout, supervisor: Supervisor, programs: tuple[Program, ...], *, timeout_s: float, log: Log) -> None:
    """Wait until all programs are healthy.

    Raises PartFailed if supervisord has given one of them up, or after `timeout_s`.
    """
    started = time.monotonic()
    waiting = list(programs)
    while waiting:
        parts = supervisor.parts()
        for program in tuple(waiting):
            seconds = time.monotonic() - started
            if is_healthy(program, parts[program.name]):
                log(f"  {program.name:<14} healthy after {seconds:5.1f} s   {program.address}".rstrip())
                waiting.remove(program)
            elif parts[program.name].state in GAVE_UP_STATES:
                raise failure(layout, program, "does not start")
            elif seconds > timeout_s:
                raise failure(layout, program, f"is not healthy after {timeout_s:.0f} s")
        if waiting:
            time.sleep(POLL_INTERVAL_S)
