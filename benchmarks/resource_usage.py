"""Measures time and memory of this process and all its child processes, and the CPU time of all other processes.

On Linux, peak memory is what the kernel recorded for each process since the measurement began (VmHWM). On other systems
it is the maximum of samples that are taken every half second. CPU time comes from these samples on all systems, because
a child process may end before the measurement does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types

_INTERVAL_S = 0.5
_KIB = 1024
_ProcessKey = tuple[int, float]  # process id and start time, because the system reuses process ids


@dataclass
class ResourceUsage:
    """Time and peak memory of this process and its children.

    `jvm_bytes`: the highest peak of a JVM. `python_bytes`: the sum of the peaks of all Python processes.
    `worker_bytes`: the highest peak of a Python child process. `driver_bytes`: the peak of this process.
    `foreign_cores`: the average number of cores that all other processes of the machine used.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    jvm_bytes: int = 0
    python_bytes: int = 0
    worker_bytes: int = 0
    driver_bytes: int = 0
    foreign_cores: float = 0.0


@dataclass
class _ProcessTree:
    """CPU seconds, peak memory and names of this process and all its child processes.

    For a child process that has ended these are the values of its last sample.
    """

    this_process: psutil.Process = field(default_factory=psutil.Process)
    cpu_s: dict[_ProcessKey, float] = field(default_factory=dict)
    peak_bytes: dict[_ProcessKey, int] = field(default_factory=dict)
    names: dict[_ProcessKey, str] = field(default_factory=dict)

    def sample(self) -> None:
        with suppress(psutil.Error):
            for process in [self.this_process, *self.this_process.children(recursive=True)]:
                with suppress(psutil.Error), process.oneshot():
                    self._record(process)

    def _record(self, process: psutil.Process) -> None:
        key = (process.pid, process.create_time())
        times = process.cpu_times()
        self.cpu_s[key] = times.user + times.system
        peak = _peak_bytes(process.pid) or process.memory_info().rss
        self.peak_bytes[key] = max(self.peak_bytes.get(key, 0), peak)
        # This process runs Python, whatever its name is.
        self.names[key] = "python" if process.pid == self.this_process.pid else process.name()

    def reset_peaks(self) -> None:
        self.peak_bytes.clear()
        with suppress(psutil.Error):
            for process in [self.this_process, *self.this_process.children(recursive=True)]:
                with suppress(OSError):
                    Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # resets VmHWM

    def cpu_seconds(self) -> float:
        return sum(self.cpu_s.values())

    def peaks_of(self, name: str) -> dict[int, int]:
        """Peak memory in bytes by process id, of the processes whose names contain `name`."""
        return {key[0]: peak for key, peak in self.peak_bytes.items() if name in self.names[key]}


def _peak_bytes(pid: int) -> int:
    """The peak memory that the kernel recorded for a process; 0 where it cannot be read."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * _KIB
    return 0


@contextmanager
def measure_usage() -> Iterator[ResourceUsage]:
    """Measure the `with` block. The yielded object gets its values when the block ends."""
    tree, spent, stop = _ProcessTree(), ResourceUsage(), threading.Event()

    def watch() -> None:
        while not stop.wait(_INTERVAL_S):
            tree.sample()

    tree.reset_peaks()
    tree.sample()
    watcher = threading.Thread(target=watch, daemon=True)
    cpu_before_s, busy_before_s, began = tree.cpu_seconds(), _busy_seconds(), time.monotonic()
    watcher.start()
    try:
        yield spent
    finally:
        spent.wall_s = time.monotonic() - began
        stop.set()
        watcher.join()
        tree.sample()
        spent.cpu_s = tree.cpu_seconds() - cpu_before_s
        foreign_cpu_s = _busy_seconds() - busy_before_s - spent.cpu_s
        spent.foreign_cores = max(0.0, foreign_cpu_s / max(spent.wall_s, 1e-3))
        python = tree.peaks_of("python")
        # The maximum, because a JVM that starts another program appears as two processes for a moment.
        spent.jvm_bytes = max(tree.peaks_of("java").values(), default=0)
        spent.python_bytes = sum(python.values())
        spent.driver_bytes = python.pop(tree.this_process.pid, 0)
        spent.worker_bytes = max(python.values(), default=0)


def _busy_seconds() -> float:
    """CPU seconds of all processes of the machine since it started."""
    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "nice", 0.0))
