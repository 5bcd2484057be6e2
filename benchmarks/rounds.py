"""Runs peers in interleaved rounds, A B C A B C, each round of a peer in a process of its own, and judges results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.dataset import Dataset
from benchmarks.layout import CHECKOUT, PEERS_PYTHON, RUNS, python_path
from benchmarks.peers.registry import ENTRIES
from benchmarks.records import write_record
from benchmarks.runner import Job, Run, read_line
from benchmarks.truth import Judge
from dedup_spark import storage

_TIMEOUT_S = 1800


class PeerFailed(Exception):
    """A peer's process ended with an error; the text holds its last words."""


class WrongResult(Exception):
    """A peer's table is not the right one: none of its figures counts."""


@dataclass(frozen=True)
class Material:
    """`inputs`: path of the Inputs. The data set knows the right answer."""

    inputs: Path
    dataset: Dataset


@dataclass(frozen=True)
class Plan:
    """One peer over some inputs; every round is a process that runs each input `repeats` times."""

    peer: str
    materials: tuple[Material, ...]
    rounds: int
    repeats: int
    rehearse: bool


@dataclass(frozen=True)
class Rounds:
    """`small`: Inputs to get warm on. `say` tells what is going on. `environment`: more variables for the processes."""

    small: Path | None
    say: Callable[[str], None]
    environment: tuple[tuple[str, str], ...] = ()
    failures: dict[str, str] = field(default_factory=dict)

    def run(self, plans: Sequence[Plan]) -> list[Run]:
        """All runs, in the order they were made.

        A peer that fails, or whose table is wrong, is left out from then on, without any of its figures: `failures`
        says why. The others go on.
        """
        runs: list[Run] = []
        judge = file_judge()
        for number in range(max(plan.rounds for plan in plans)):
            for plan in plans:
                if number < plan.rounds and plan.peer not in self.failures:
                    try:
                        runs += self._round(plan, number, judge)
                    except (PeerFailed, WrongResult, subprocess.TimeoutExpired) as failure:
                        self.failures[plan.peer] = str(failure)
                        self.say(str(failure))
        return [run for run in runs if run.peer not in self.failures]

    def _round(self, plan: Plan, number: int, judge: Judge) -> list[Run]:
        RUNS.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{plan.peer}-", dir=RUNS))
        try:
            inputs = tuple(str(material.inputs) for material in plan.materials)
            small = str(self.small) if self.small else None
            job = Job(plan.peer, inputs, small, str(folder), plan.repeats, plan.rehearse)
            runs = self._start(job, folder)
            for run in runs:
                self.say(line_of(run, number))
                _require_right(run, plan.materials, judge)
            return runs
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self, job: Job, folder: Path) -> list[Run]:
        write_record(folder / "job.json", asdict(job))
        python = PEERS_PYTHON if ENTRIES[job.peer].in_peers_environment else Path(sys.executable)
        environment = {
            **os.environ,
            **dict(self.environment),
            "PYTHONPATH": python_path(),
            "POLARS_MAX_THREADS": "2",
            "RAYON_NUM_THREADS": "2",
            "TOKIO_WORKER_THREADS": "2",
        }
        with (folder / "log").open("w+") as log:
            done = subprocess.run(
                [str(python), "-m", "benchmarks.runner", str(folder / "job.json")],
                cwd=CHECKOUT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                log.seek(0)
                raise PeerFailed(f"Peer [{job.peer}] failed, its last words: {log.read()[-3000:]}")
        return [run for run in map(read_line, done.stdout.splitlines()) if run]


def _require_right(run: Run, materials: Iterable[Material], judge: Judge) -> None:
    if run.result.files is None:
        return
    expected = next(m.dataset.answer for m in materials if m.dataset.name == run.inputs)
    found = judge.of(list(run.result.files))
    if found != expected:
        raise WrongResult(f"Peer [{run.peer}] made [{found}] of [{run.inputs}], expected [{expected}]: do not use it.")


def file_judge() -> Judge:
    """Judges files of this machine and objects of the storage that the job uses."""
    return Judge(storage.open_input, _identity)


def line_of(run: Run, number: int) -> str:
    spent = run.spent
    return (
        f"round {number + 1} {run.peer:20} {run.inputs:40} {spent.wall_s:7.2f} s, CPU {spent.cpu_s:6.1f} s, foreign "
        f"{spent.foreign_cores:.2f} cores, JVM {spent.jvm_bytes / 1e9:.2f} GB, Python {spent.python_bytes / 1e9:.2f} GB"
    )


def _identity(name: str) -> object:
    """Hard links of one file have one identity; an object's name is its own, for names of attempts are never reused."""
    if "://" in name:
        return name
    status = Path(name).stat()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
