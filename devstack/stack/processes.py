"""Finds and ends all processes of a local stack.

Process tree and process groups do not lead to all of them, because tasks run in groups of their own and Spark outlives
a killed task. Instead, every process of a stack inherits an environment variable, named by STACK_VARIABLE,
whose value is the stack's folder.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types

from devstack.stack.stack_errors import StackError

STACK_VARIABLE = "DEDUP_CLONE_STACK"
ATTEMPTS = 3  # to end one process


def _own_process_ids() -> set[int]:
    """The ids of this process and its ancestors, which must not be ended, even if a shell exports STACK_VARIABLE."""
    me = psutil.Process(os.getpid())
    return {me.pid, *(parent.pid for parent in me.parents())}


def _is_of_stack(process: psutil.Process, local: str) -> bool:
    try:
        return bool(process.environ().get(STACK_VARIABLE) == local)
    except psutil.AccessDenied:
        return os.geteuid() == 0 and _is_database(process, local)
    except (psutil.NoSuchProcess, psutil.ZombieProcess, OSError):
        return False


def _is_database(process: psutil.Process, local: str) -> bool:
    """Whether this is the stack's PostgreSQL. In a container not even root can always read its environment."""
    try:
        return process.name() == "postgres" and any(word.startswith(f"{local}{os.sep}") for word in process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def of_stack(local: Path) -> list[psutil.Process]:
    """All running processes of the stack in the folder `local`, with their child processes."""
    own_ids = _own_process_ids()
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if process.pid in own_ids or not _is_of_stack(process, str(local)):
            continue
        found[process.pid] = process
        for child in _children(process):
            if child.pid not in own_ids:
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


def end(processes: list[psutil.Process], timeout_s: float) -> None:
    """Send SIGTERM to the processes, and SIGKILL to those that still run after `timeout_s`."""
    _signal(processes, psutil.Process.terminate)
    _, alive = psutil.wait_procs(processes, timeout=timeout_s)
    _signal(alive, psutil.Process.kill)
    psutil.wait_procs(alive, timeout=timeout_s)


@contextmanager
def running_tasks_killed(scheduler_pid: int) -> Iterator[None]:
    """Suspend Airflow's scheduler until the end of the `with` block, and kill the tasks that it runs.

    A task that is asked to stop reports a failure, which uses up one of its retries. A task that is killed without a
    report is started again by the next scheduler. So Airflow's process that supervises the task is killed first, before
    it can report anything. The scheduler is suspended, so that it cannot start the task again now.
    `scheduler_pid`: 0 if no scheduler runs; then nothing is done.
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
    try:
        task_supervisors = scheduler.children()
        task_processes = [process for supervisor in task_supervisors for process in _children(supervisor)]
        _signal(task_supervisors, psutil.Process.kill)
        _signal(task_processes, psutil.Process.kill)
        yield
    finally:
        _signal([scheduler], psutil.Process.resume)


def wait_for_end(pid: int, timeout_s: float) -> bool:
    """Wait for the end of a process, at most `timeout_s`. Returns whether it has ended."""
    try:
        psutil.Process(pid).wait(timeout=timeout_s)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def sweep(local: Path, timeout_s: float) -> int:
    """End processes of the stack until there are none, also those that start meanwhile. Returns how many were found.

    Raises StackError for a process that outlives all attempts: SIGKILL does not end one that waits in the kernel.
    """
    attempts: Counter[int] = Counter()
    while processes := of_stack(local):
        found = [process.pid for process in processes]
        if stuck := [pid for pid in found if attempts[pid] == ATTEMPTS]:
            raise StackError(
                f"Processes [{', '.join(map(str, stuck))}] of the stack in {local} still run after {ATTEMPTS} times "
                "SIGKILL: see what they wait for (ps -o pid,stat,wchan,args), end them, and try again."
            )
        attempts.update(found)
        end(processes, timeout_s)
    return len(attempts)
