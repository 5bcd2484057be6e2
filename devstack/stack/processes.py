"""Which processes belong to this stack, wherever they went, and how they are ended.

Tasks run in process groups of their own and Spark outlives a killed task, so neither the process tree nor the
group says what is ours. The environment does: every process of a stack inherits the marker variable.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types

MARKER = "DEDUP_CLONE_STACK"


def _ourselves() -> set[int]:
    """This process and those that wait for it: a shell that exported the marker must not be ended by us."""
    me = psutil.Process(os.getpid())
    return {me.pid, *(parent.pid for parent in me.parents())}


def _carries_marker(process: psutil.Process, value: str) -> bool:
    try:
        return bool(process.environ().get(MARKER) == value)
    except psutil.AccessDenied:
        return os.geteuid() == 0 and _is_database(process, value)
    except (psutil.NoSuchProcess, psutil.ZombieProcess, OSError):
        return False


def _is_database(process: psutil.Process, local: str) -> bool:
    """PostgreSQL has another user than root, and in a container root may not read what is in its environment."""
    try:
        return process.name() == "postgres" and any(part.startswith(f"{local}{os.sep}") for part in process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def of_stack(local: Path) -> list[psutil.Process]:
    """All running processes of the stack that lives in `local`, with their children."""
    spared = _ourselves()
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if process.pid in spared or not _carries_marker(process, str(local)):
            continue
        found[process.pid] = process
        for child in _children(process):
            if child.pid not in spared:
                found[child.pid] = child
    return list(found.values())


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def _signal(processes: Iterable[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        try:
            send(process)
        except psutil.NoSuchProcess:
            continue


def end(processes: list[psutil.Process], patience_s: float) -> None:
    """Asks the processes to end, and kills those that still run after `patience_s`."""
    _signal(processes, psutil.Process.terminate)
    _, alive = psutil.wait_procs(processes, timeout=patience_s)
    _signal(alive, psutil.Process.kill)
    psutil.wait_procs(alive, timeout=patience_s)


@contextmanager
def tasks_cut_off(scheduler_pid: int) -> Iterator[None]:
    """Ends running tasks at once, as a power cut would, and holds the scheduler still in the block.

    A task that is asked to stop reports a failure and uses up a retry; one that just vanishes is started
    again by the next scheduler. The task's supervisor goes first, so that it cannot report anything, and the
    scheduler must not start another in its place. Process id 0 means that no scheduler runs.
    """
    try:
        scheduler = psutil.Process(scheduler_pid) if scheduler_pid else None
        if scheduler:
            scheduler.suspend()
    except psutil.NoSuchProcess:
        scheduler = None
    if not scheduler:
        yield
        return
    supervisors = scheduler.children()
    below = [process for supervisor in supervisors for process in _children(supervisor)]
    _signal(supervisors, psutil.Process.kill)
    _signal(below, psutil.Process.kill)
    try:
        yield
    finally:
        _signal([scheduler], psutil.Process.resume)


def wait_for_end(pid: int, patience_s: float) -> bool:
    """Whether the process ended in time."""
    try:
        psutil.Process(pid).wait(timeout=patience_s)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def sweep(local: Path, patience_s: float) -> int:
    """Ends everything of the stack that still runs. Returns how many processes it found."""
    swept: set[int] = set()
    while processes := of_stack(local):
        swept.update(process.pid for process in processes)
        end(processes, patience_s)
    return len(swept)
