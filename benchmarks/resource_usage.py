"""Measures this process with all its children: wall and CPU seconds and memory, and the load of other processes.

Peak memory is the kernel's (VmHWM, reset at the start), so it contains peaks between two samples. Without Linux it is
the highest sample. CPU seconds are read at the end, and every half second for processes that end earlier.
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
Identity = tuple[int, float]


@dataclass
class ResourceUsage:
    """Memory is peak memory. `jvm_bytes`: the largest JVM. `python_bytes`: the sum over all Python processes.

    `worker_bytes`: the largest Python child. `driver_bytes`: this process. `foreign_cores`: how many cores other
    processes used on average.
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
    """CPU seconds, peak memory and names of this process and its children, also of those that have ended."""

    me: psutil.Process = field(default_factory=psutil.Process)
    cpu_s: dict[Identity, float] = field(default_factory=dict)
    peaks: dict[Identity, int] = field(default_factory=dict)
    names: dict[Identity, str] = field(default_factory=dict)

    def sample(self) -> None:
        with suppress(psutil.Error):
            for process in [self.me, *self.me.children(recursive=True)]:
                with suppress(psutil.Error), process.oneshot():
                    self._record(process)

    def _record(self, process: psutil.Process) -> None:
        identity = (process.pid, process.create_time())
        times = process.cpu_times()
        self.cpu_s[identity] = times.user + times.system
        peak = _peak_bytes(process.pid) or process.memory_info().rss
        self.peaks[identity] = max(self.peaks.get(identity, 0), peak)
        # This process runs Python, too, whatever its name is.
        self.names[identity] = "python" if process.pid == self.me.pid else process.name()

    def reset_peaks(self) -> None:
        self.peaks.clear()
        with suppress(psutil.Error):
            for process in [self.me, *self.me.children(recursive=True)]:
                with suppress(OSError):
                    Path(f"/proc/{process.pid}/clear_refs").write_text("5")

    def cpu_seconds(self) -> float:
        return sum(self.cpu_s.values())

    def peaks_of(self, name: str) -> dict[int, int]:
        return {identity[0]: peak for identity, peak in self.peaks.items() if name in self.names[identity]}


def _peak_bytes(pid: int) -> int:
    """The peak memory that the kernel counted, 0 when it cannot be read."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * _KIB
    return 0


@contextmanager
def measure_usage() -> Iterator[ResourceUsage]:
    """Measures the block. The yielded object is filled when the block ends."""
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
        # The maximum, not the sum, because a forking JVM appears twice for a moment.
        spent.jvm_bytes = max(tree.peaks_of("java").values(), default=0)
        spent.python_bytes = sum(python.values())
        spent.driver_bytes = python.pop(tree.me.pid, 0)
        spent.worker_bytes = max(python.values(), default=0)


def _busy_seconds() -> float:
    """CPU seconds of all processes of the machine since it started."""
    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "nice", 0.0))
