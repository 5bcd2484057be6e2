"""Time and memory of a `with` block and of its child processes."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.resource_usage import measure_usage

_MIB = 2**20
_WORK = f"""
import time
held = bytearray({200 * _MIB})
for place in range(0, len(held), 4096):
    held[place] = 1
began = time.process_time()
while time.process_time() - began < 1.2:
    pass
"""


def test_child_processes_are_measured() -> None:
    with measure_usage() as spent:
        subprocess.run([sys.executable, "-c", _WORK], check=True)
    assert spent.cpu_s > 0.5
    assert spent.wall_s >= 1.2
    assert spent.worker_bytes > 200 * _MIB
    assert spent.python_bytes >= spent.worker_bytes + spent.driver_bytes


def test_a_peak_before_the_measurement_is_not_measured() -> None:
    held = bytearray(300 * _MIB)
    held[::4096] = b"\1" * len(held[::4096])
    with measure_usage() as before:
        pass
    del held
    with measure_usage() as after:
        pass
    assert after.driver_bytes < before.driver_bytes - 200 * _MIB
