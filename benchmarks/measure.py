"""What a process and all its children spend while something runs: wall and CPU seconds, memory, foreign load.

Peak memory is the kernel's own (VmHWM, set back at the start), so that nothing is missed between two looks. CPU
seconds are read at the end, and every half second for processes that end before. Elsewhere than on Linux memory is
what the looks see.
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
class Spent:
    """Seconds and bytes. `worker_bytes` is the largest single Python child, `python_bytes` the sum of all Python.

    `foreign_cores`: what other processes used meanwhile, in cores.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    jvm_bytes: int = 0
    python_bytes: int = 0
    worker_bytes: int = 0
    driver_bytes: int = 0
    foreign_cores: float = 0.0


@dataclass
class _Tree:
    me: psutil.Process = field(default_factory=psutil.Process)
    cpu: dict[Identity, float] = field(default_factory=dict)
    peaks: dict[Identity, int] = field(default_factory=dict)
    names: dict[Identity, str] = field(default_factory=dict)

    def look(self) -> None:
        with suppress(psutil.Error):
            for process in [self.me, *self.me.children(recursive=True)]:
                with suppress(psutil.Error), process.oneshot():
                    self._note(process)

    def _note(self, process: psutil.Process) -> None:
        identity = (process.pid, process.create_time())
        times = process.cpu_times()
        self.cpu[identity] = times.user + times.system
        peak = _peak_bytes(process.pid) or process.memory_info().rss
        self.peaks[identity] = max(self.peaks.get(identity, 0), peak)
        self.names[identity] = "python" if process.pid == self.me.pid else process.name()  # it may have renamed itself

    def set_back_peaks(self) -> None:
        self.peaks.clear()
        with suppress(psutil.Error):
            for process in [self.me, *self.me.children(recursive=True)]:
                with suppress(OSError):
                    Path(f"/proc/{process.pid}/clear_refs").write_text("5")

    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())

    def peaks_of(self, name: str) -> dict[int, int]:
        return {identity[0]: peak for identity, peak in self.peaks.items() if name in self.names[identity]}


def _peak_bytes(pid: int) -> int:
    """0 where the kernel does not say."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * _KIB
    return 0


@contextmanager
def measuring() -> Iterator[Spent]:
    """Fills what it yields when the block ends."""
    tree, spent, stop = _Tree(), Spent(), threading.Event()

    def watch() -> None:
        while not stop.wait(_INTERVAL_S):
            tree.look()

    tree.set_back_peaks()
    tree.look()
    watcher = threading.Thread(target=watch, daemon=True)
    cpu, busy, began = tree.cpu_seconds(), _busy_seconds(), time.monotonic()
    watcher.start()
    try:
        yield spent
    finally:
        spent.wall_s = time.monotonic() - began
        stop.set()
        watcher.join()
        tree.look()
        spent.cpu_s = tree.cpu_seconds() - cpu
        foreign = _busy_seconds() - busy - spent.cpu_s
        spent.foreign_cores = max(0.0, foreign / max(spent.wall_s, 1e-3))
        python = tree.peaks_of("python")
        spent.jvm_bytes = max(tree.peaks_of("java").values(), default=0)  # a forking JVM is seen twice for a moment
        spent.python_bytes = sum(python.values())
        spent.driver_bytes = python.pop(tree.me.pid, 0)
        spent.worker_bytes = max(python.values(), default=0)


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "nice", 0.0))
