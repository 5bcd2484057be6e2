"""Runs peers in interleaved rounds (A B C A B C), each round of a peer in its own process, and checks their tables."""

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
from benchmarks.json_records import write_record
from benchmarks.paths import CHECKOUT, PEERS_PYTHON, RUNS, pythonpath_variable
from benchmarks.peer_process import MeasuredRun, PeerJob, read_line
from benchmarks.peers.registry import ENTRIES
from benchmarks.table_digest import DigestReader
from dedup_spark import storage

_TIMEOUT_S = 1800


class PeerFailed(Exception):
    """A peer's process failed. The message contains the end of its log."""


class WrongTable(Exception):
    """A peer made a wrong table, so none of its figures counts."""


@dataclass(frozen=True)
class PreparedDataset:
    """A data set with a published state. `inputs`: the path of its stored InputFiles."""

    inputs: Path
    dataset: Dataset


@dataclass(frozen=True)
class PeerPlan:
    """How often a peer runs. Every round is a process that runs the peer `repeats` times on each data set.

    `warm_up`: before that it runs once on each data set without being measured.
    """

    peer: str
    datasets: tuple[PreparedDataset, ...]
    rounds: int
    repeats: int
    warm_up: bool


@dataclass(frozen=True)
class InterleavedRounds:
    """`small`: the path of the stored InputFiles on which every process runs its peer first, unmeasured.

    `environment`: additional variables of the processes. `failures`: by peer, why it has no figures.
    """

    small: Path | None
    log: Callable[[str], None]
    environment: tuple[tuple[str, str], ...] = ()
    failures: dict[str, str] = field(default_factory=dict)

    def run(self, plans: Sequence[PeerPlan]) -> list[MeasuredRun]:
        """Return all measured runs in the order in which they ran.

        After a failure or a wrong table the peer does not run again, all its runs are left out, and `failures` has
        the reason. The other peers continue.
        """
        runs: list[MeasuredRun] = []
        digest_reader = file_digest_reader()
        for number in range(max(plan.rounds for plan in plans)):
            for plan in plans:
                if number < plan.rounds and plan.peer not in self.failures:
                    try:
                        runs += self._round(plan, number, digest_reader)
                    except (PeerFailed, WrongTable, subprocess.TimeoutExpired) as failure:
                        self.failures[plan.peer] = str(failure)
                        self.log(str(failure))
        return [run for run in runs if run.peer not in self.failures]

    def _round(self, plan: PeerPlan, number: int, digest_reader: DigestReader) -> list[MeasuredRun]:
        RUNS.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{plan.peer}-", dir=RUNS))
        try:
            inputs = tuple(str(dataset.inputs) for dataset in plan.datasets)
            small = str(self.small) if self.small else None
            job = PeerJob(plan.peer, inputs, small, str(folder), plan.repeats, plan.warm_up)
            runs = self._start(job, folder)
            for run in runs:
                self.log(log_line(run, number))
                _require_right_table(run, plan.datasets, digest_reader)
            return runs
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self, job: PeerJob, folder: Path) -> list[MeasuredRun]:
        write_record(folder / "job.json", asdict(job))
        python = PEERS_PYTHON if ENTRIES[job.peer].in_peers_environment else Path(sys.executable)
        environment = {
            **os.environ,
            **dict(self.environment),
            "PYTHONPATH": pythonpath_variable(),
            "POLARS_MAX_THREADS": "2",
            "RAYON_NUM_THREADS": "2",
            "TOKIO_WORKER_THREADS": "2",
        }
        with (folder / "log").open("w+") as log:
            done = subprocess.run(
                [str(python), "-m", "benchmarks.peer_process", str(folder / "job.json")],
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
                raise PeerFailed(f"Peer [{job.peer}] failed, the end of its log: {log.read()[-3000:]}")
        return [run for run in map(read_line, done.stdout.splitlines()) if run]


def _require_right_table(run: MeasuredRun, datasets: Iterable[PreparedDataset], digest_reader: DigestReader) -> None:
    if run.result.files is None:
        return
    expected = next(one.dataset.answer for one in datasets if one.dataset.name == run.inputs)
    found = digest_reader.of(list(run.result.files))
    if found != expected:
        raise WrongTable(
            f"Peer [{run.peer}] made table [{found}] from [{run.inputs}], expected [{expected}]: do not use it."
        )


def log(text: str) -> None:
    """Prints progress to stderr, because stdout is for tables."""
    print(text, file=sys.stderr, flush=True)


def file_digest_reader() -> DigestReader:
    """A digest reader for files of this machine and for objects of the job's storage."""
    return DigestReader(storage.open_input, _identity)


def log_line(run: MeasuredRun, number: int) -> str:
    spent = run.spent
    return (
        f"round {number + 1} {run.peer:20} {run.inputs:40} {spent.wall_s:7.2f} s, CPU {spent.cpu_s:6.1f} s, foreign "
        f"{spent.foreign_cores:.2f} cores, JVM {spent.jvm_bytes / 1e9:.2f} GB, Python {spent.python_bytes / 1e9:.2f} GB"
    )


def _identity(name: str) -> object:
    """Identifies a file's content: the same for hard links. For an object it is the name, which is never reused."""
    if "://" in name:
        return name
    status = Path(name).stat()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
