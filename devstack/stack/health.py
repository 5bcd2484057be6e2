"""Checks the health of the stack's parts, and waits until all of them are healthy."""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped]  # it ships no types

from devstack.http_calls import says_healthy
from devstack.stack.layout import Layout, StackError
from devstack.stack.parts import API_SERVER, Part
from devstack.stack.supervisord import GAVE_UP_STATES, PartState, Supervisor

POLL_INTERVAL_S = 0.25
LOG_LINES_SHOWN = 15

Log = Callable[[str], None]


def is_healthy(part: Part, states: Mapping[str, PartState]) -> bool:
    """Whether a part runs and is healthy now. `states`: the state of each part, by the part's name.

    Only an answer of the stack's own process counts: another program, such as the server of another checkout, may
    answer on the port. A heartbeat that is older than the part's process is ignored: it came from an earlier process.
    """
    state, server = states.get(part.name), states.get(API_SERVER if part.has_heartbeat else part.name)
    if state is None or server is None:
        return False
    if part.health_command:
        return state.pid != 0 and subprocess.run(part.health_command, capture_output=True).returncode == 0
    if state.state != "RUNNING" or not _listens(server.pid, urlsplit(part.health_url).port):
        return False
    return says_healthy(part.health_url, part.name if part.has_heartbeat else None, state.started_at)


def _listens(pid: int, port: int | None) -> bool:
    """Whether the process, or a child of it, listens on the port."""
    try:
        process = psutil.Process(pid)
        sockets = [s for one in (process, *process.children(recursive=True)) for s in one.net_connections("inet")]
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    return any(s.status == psutil.CONN_LISTEN and s.laddr.port == port for s in sockets)


def end_of_log(log: Path) -> str:
    """The last lines of a log and its path, for the message of an error."""
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:] if log.exists() else []
    return "\n".join([*(f"    {line}" for line in lines or ["(empty)"]), f"  The whole log: {log}"])


def wait(layout: Layout, supervisor: Supervisor, parts: tuple[Part, ...], *, timeout_s: float, log: Log) -> None:
    """Wait until all these parts are healthy.

    Raises StackError, with the end of the part's log, if supervisord no longer tries to start one of them, or after
    `timeout_s`.
    """
    started = time.monotonic()
    unhealthy = list(parts)
    while unhealthy:
        states = supervisor.part_states()
        for part in tuple(unhealthy):
            seconds = time.monotonic() - started
            if is_healthy(part, states):
                log(f"  {part.name:<14} healthy after {seconds:5.1f} s   {part.address}".rstrip())
                unhealthy.remove(part)
                continue
            gave_up = states[part.name].state in GAVE_UP_STATES
            if gave_up or seconds > timeout_s:
                reason = "does not start" if gave_up else f"is not healthy after {timeout_s:.0f} s"
                text = end_of_log(layout.log_of(part.name))
                raise StackError(f"{part.name} {reason}. The end of its log:\n{text}")
        if unhealthy:
            time.sleep(POLL_INTERVAL_S)
