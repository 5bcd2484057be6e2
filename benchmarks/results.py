"""Defines the figures of measured runs, and stores the figures of each sub-command in a JSON file."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types

from benchmarks.json_records import read_record, write_record
from benchmarks.paths import OTHER_SIZE_RESULTS, PEERS_PYTHON, RESULTS
from benchmarks.peer_process import MeasuredRun

_PACKAGES = ("pyspark", "pyarrow", "numpy", "duckdb")
_PEER_PACKAGES = ("polars", "deltalake")


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run of `peer` on the data set `dataset_name`, whose snapshot has `rows` rows.

    `dates`: the number of dates. ResourceUsage (resource_usage.py) describes the figures from `wall_s` to
    `foreign_cores`. `shuffled_bytes`: what Spark wrote for shuffles. `written_bytes`: the size of the files that the
    run wrote. `read_bytes`: what the run read; None for a peer that does not count it. A cold run of sub-command
    `fixed-cost` has no figures of worker, driver and shuffles. `notes`: any texts about the run, by name.
    """

    peer: str
    dataset_name: str
    rows: int
    dates: int
    wall_s: float
    cpu_s: float
    jvm_bytes: int
    python_bytes: int
    worker_bytes: int | None
    driver_bytes: int | None
    foreign_cores: float
    shuffled_bytes: int | None
    written_bytes: int
    read_bytes: int | None
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """The figures of one run of a sub-command.

    `made_at`: in UTC. `machine`: processor, memory and versions of packages. `is_default_size`: whether the data sets
    had the sub-command's default size and variant, and `--only` named no peers. `failures`: the reason for each peer
    that has no figures.
    """

    command: str
    made_at: str
    machine: str
    is_default_size: bool
    figures: tuple[RunFigures, ...]
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def made(self) -> str:
        """A text with the time, the processor and the memory; `machine` has the versions of packages, too."""
        return f"{self.made_at} UTC, {self.machine.partition(';')[0]}."

    def figures_of(self, peer: str, dataset_name: str | None = None) -> list[RunFigures]:
        """The figures of a peer, on all data sets or on one of them."""
        return [f for f in self.figures if f.peer == peer and dataset_name in (None, f.dataset_name)]


def run_figures(run: MeasuredRun, rows: int, dates: int) -> RunFigures:
    """The figures of a run on a snapshot of `rows` rows and `dates` dates."""
    spent = run.spent
    return RunFigures(
        peer=run.peer,
        dataset_name=run.dataset_name,
        rows=rows,
        dates=dates,
        wall_s=round(spent.wall_s, 3),
        cpu_s=round(spent.cpu_s, 2),
        jvm_bytes=spent.jvm_bytes,
        python_bytes=spent.python_bytes,
        worker_bytes=spent.worker_bytes,
        driver_bytes=spent.driver_bytes,
        foreign_cores=round(spent.foreign_cores, 2),
        shuffled_bytes=run.shuffled,
        written_bytes=run.written,
        read_bytes=run.result.bytes_read,
        notes=run.result.notes,
    )


def median(figures: Iterable[RunFigures], value: Callable[[RunFigures], float]) -> float:
    """The median of `value` over the figures. Raises StatisticsError when there are none."""
    return statistics.median([value(measured) for measured in figures])


def wall(figures: Iterable[RunFigures]) -> float:
    """The median wall time in seconds."""
    return median(figures, lambda measured: measured.wall_s)


def cpu(figures: Iterable[RunFigures]) -> float:
    """The median CPU time in seconds."""
    return median(figures, lambda measured: measured.cpu_s)


def save(command: str, figures: Iterable[RunFigures], failures: dict[str, str], *, is_default_size: bool) -> Results:
    """Store and return the results: in the repository if they have the default size, else in the work folder."""
    made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    results = Results(command, made_at, describe_machine(), is_default_size, tuple(figures), failures)
    write_record(path_of(command, is_default_size=is_default_size), results)
    return results


def load(command: str) -> Results | None:
    """The stored results of the default size; None if there are none."""
    path = path_of(command, is_default_size=True)
    return read_record(Results, path) if path.exists() else None


def path_of(command: str, *, is_default_size: bool) -> Path:
    """The file with the results of a sub-command. Results of other sizes are not part of the repository."""
    return (RESULTS if is_default_size else OTHER_SIZE_RESULTS) / f"{command}.json"


def describe_machine() -> str:
    """A text that names the processor, the memory and the versions of the packages that were measured."""
    memory = psutil.virtual_memory().total / 2**30
    packages = [f"{name} {_version(name)}" for name in _PACKAGES]
    packages += [f"{name} {_peer_version(name)}" for name in _PEER_PACKAGES]
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB; {', '.join([python, *packages])}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _peer_version(package: str) -> str:
    found = sorted(PEERS_PYTHON.parent.parent.glob(f"lib/python*/site-packages/{package}-*.dist-info"))
    return found[-1].name.removeprefix(f"{package}-").removesuffix(".dist-info") if found else "absent"
