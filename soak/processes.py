"""Who is who in a running stack, and `kill -9`.

A held request belongs to the process at the other end of its connection; what that is can be read off its ancestors:
a task's process is the child of an executor's worker, which is the child of the scheduler.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from itertools import pairwise

import psutil  # type: ignore[import-untyped]  # it ships no types

from devstack.stack.processes import of_stack
from soak.errors import SoakError
from soak.stack import SoakStack

GONE_PATIENCE_S = 10.0
MAIN_PARTS = ("scheduler", "triggerer", "dag_processor", "api_server", "bigquery", "fake_gcs", "database")


def client_of(stack: SoakStack, client_port: int, gate_port: int) -> psutil.Process:
    """The process that holds the other end of a connection to a gate."""
    for process in of_stack(stack.layout.local):
        try:
            connections = process.net_connections(kind="tcp")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        for connection in connections:
            if connection.raddr and connection.laddr.port == client_port and connection.raddr.port == gate_port:
                return process
    raise SoakError(f"No process of the stack holds the connection from port [{client_port}].")


def chain(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.parents()]


def main_process(stack: SoakStack, part: str) -> psutil.Process:
    """The process that supervisord started for a part."""
    running = stack.parts()[part]
    if running.pid == 0:
        raise SoakError(f"Part [{part}] does not run: {running.state}.")
    return psutil.Process(running.pid)


def executor_worker(stack: SoakStack, client: psutil.Process) -> psutil.Process:
    """The executor's worker that `client` runs below: the parent of the task's own process."""
    scheduler = stack.parts()["scheduler"].pid
    for process, parent in pairwise(chain(client)):
        if parent.pid == scheduler:
            return process
    raise SoakError(f"Process [{describe(client)}] runs below no task of the scheduler.")


def task_process(stack: SoakStack, client: psutil.Process) -> psutil.Process:
    """The process that runs the task's code."""
    worker = executor_worker(stack, client)
    return next(process for process in chain(client) if process.ppid() == worker.pid)


def java_above(client: psutil.Process) -> psutil.Process:
    for process in chain(client):
        if "java" in process.name():
            return process
    raise SoakError(f"No JVM above [{describe(client)}].")


def describe(process: psutil.Process) -> str:
    """For the report: id, and the telling end of the command line."""
    try:
        words = process.cmdline()
    except psutil.Error:
        words = []
    text = " ".join(word.rsplit("/", 1)[-1] for word in words)
    return f"{process.pid} {text[:70]}"


def kill(process: psutil.Process) -> None:
    """`kill -9`, and waits until it is gone (a zombie counts: its parent has not looked yet)."""
    process.send_signal(signal.SIGKILL)
    give_up = time.monotonic() + GONE_PATIENCE_S
    while _runs(process):
        if time.monotonic() > give_up:
            raise SoakError(f"[{describe(process)}] survived SIGKILL for {GONE_PATIENCE_S:.0f} s.")
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def end_orphans(stack: SoakStack, is_orphan: Callable[[psutil.Process], bool]) -> int:
    """Ends processes that nobody waits for any more; they would only use memory in the points to come."""
    orphans = [process for process in of_stack(stack.layout.local) if is_orphan(process)]
    for process in orphans:
        try:
            kill(process)
        except psutil.NoSuchProcess:
            continue
    return len(orphans)
