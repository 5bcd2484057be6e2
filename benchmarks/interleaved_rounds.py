"""Runs several peers in turn, and checks the tables that they make.

Peers A, B and C run in the order A B C A B C, so that a change of the machine's load affects all peers alike. Each
letter stands for a round of that peer: a process of its own with one or more measured runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.dataset import Dataset
from benchmarks.json_records import write_record
from benchmarks.paths import CHECKOUT, PEERS_PYTHON, RUNS, pythonpath_variable
from benchmarks.peer_process import MeasuredRun, PeerProcessSpec, parse_line
from benchmarks.peers.registry import ENTRIES
from benchmarks.table_digest import DigestReader
from dedup_spark import storage

_TIMEOUT_S = 1800


class PeerFailed(Exception):
    """A peer's process failed, and the message contains the end of its log; or the process printed no measured run."""


class WrongTable(Exception):
    """A peer made a table, or counts, that differ from the expected ones. None of its figures is reported."""


@dataclass(frozen=True)
class PreparedDataset:
    """A data set whose parent is published. `inputs_path`: the path of its stored InputFiles."""

    inputs_path: Path
    dataset: Dataset


@dataclass(frozen=True)
class PeerSchedule:
    """The data sets on which a peer runs, and how often.

    Each of the `rounds` is a process that measures `repeats` runs on each data set. `warm_up`: whether the process
    first runs once on each data set without being measured.
    """

    peer: str
    datasets: tuple[PreparedDataset, ...]
    rounds: int
    repeats: int
    warm_up: bool


@dataclass(frozen=True)
class InterleavedRounds:
    """Starts the processes of all peers, and collects their measured runs.

    `small_inputs_path`: the path of the InputFiles of a small data set, on which every process first runs its peer
    without measuring it; None for no such run. `log`: gets lines about the progress. `environment`: additional
    environment variables of the processes. `failures`: the reason for each peer that has no figures.
    """

    small_inputs_path: Path | None
    log: Callable[[str], None]
    environment: tuple[tuple[str, str], ...] = ()
    failures: dict[str, str] = field(default_factory=dict)

    def run(self, plans: Sequence[PeerSchedule]) -> list[MeasuredRun]:
        """Run the peers by their schedules `plans`, and return all measured runs in the order in which they ran.

        A peer that fails or makes a wrong table does not run again. All its runs are left out, and `failures` has the
        reason. The other peers continue.
        """
        runs: list[MeasuredRun] = []
        digest_reader = file_digest_reader()
        for number in range(max(schedule.rounds for schedule in plans)):
            for schedule in plans:
                if number < schedule.rounds and schedule.peer not in self.failures:
                    try:
                        runs += self._run_round(schedule, number, digest_reader)
                    except (PeerFailed, WrongTable, subprocess.TimeoutExpired) as failure:
                        self.failures[schedule.peer] = str(failure)
                        self.log(str(failure))
        return [run for run in runs if run.peer not in self.failures]

    def _run_round(self, schedule: PeerSchedule, number: int, digest_reader: DigestReader) -> list[MeasuredRun]:
        """Run one process of the peer. Raises PeerFailed, WrongTable or TimeoutExpired.

        `number`: the round's number, from 0.
        """
        RUNS.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{schedule.peer}-", dir=RUNS))
        try:
            inputs_paths = tuple(str(dataset.inputs_path) for dataset in schedule.datasets)
            small = str(self.small_inputs_path) if self.small_inputs_path else None
            spec = PeerProcessSpec(schedule.peer, inputs_paths, small, str(folder), schedule.repeats, schedule.warm_up)
            runs = self._run_process(spec, folder)
            for run in runs:
                self.log(run_line(run, number))
                _check_result(run, schedule.datasets, digest_reader)
            return runs
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run_process(self, spec: PeerProcessSpec, folder: Path) -> list[MeasuredRun]:
        write_record(folder / "spec.json", spec)
        python = PEERS_PYTHON if ENTRIES[spec.peer].needs_bench_environment else Path(sys.executable)
        environment = {
            **os.environ,
            **dict(self.environment),
            "PYTHONPATH": pythonpath_variable(),
            "POLARS_MAX_THREADS": "2",
            "RAYON_NUM_THREADS": "2",
            "TOKIO_WORKER_THREADS": "2",
        }
        with (folder / "log").open("w+") as log_file:
            done = subprocess.run(
                [str(python), "-m", "benchmarks.peer_process", str(folder / "spec.json")],
                cwd=CHECKOUT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log_file,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                log_file.seek(0)
                raise PeerFailed(f"Peer [{spec.peer}] failed, the end of its log: {log_file.read()[-3000:]}")
        runs = [run for run in map(parse_line, done.stdout.splitlines()) if run]
        if not runs:
            raise PeerFailed(f"Peer [{spec.peer}] ended without an error, but printed no measured run.")
        return runs


def _check_result(run: MeasuredRun, datasets: Iterable[PreparedDataset], digest_reader: DigestReader) -> None:
    """Raise WrongTable if the table or the counts of a run differ from those of its data set."""
    dataset = next(prepared.dataset for prepared in datasets if prepared.dataset.name == run.dataset_name)
    if run.result.files is not None:
        found = digest_reader.digest(list(run.result.files))
        if found != dataset.expected:
            raise WrongTable(
                f"Peer [{run.peer}] made table [{found}] from [{run.dataset_name}], expected "
                f"[{dataset.expected}]: do not use it."
            )
    if run.result.counts is not None and not run.result.counts.agrees_with(dataset.counts):
        raise WrongTable(
            f"Peer [{run.peer}] counted [{run.result.counts}] in [{run.dataset_name}], expected "
            f"[{dataset.counts}]: do not use it."
        )


def log_progress(text: str) -> None:
    """Print progress to stderr; stdout is for the tables of results."""
    print(text, file=sys.stderr, flush=True)


def file_digest_reader() -> DigestReader:
    """A DigestReader, which computes digests of tables, for files of this machine and objects in Cloud Storage."""
    return DigestReader(storage.open_input, _identity)


def run_line(run: MeasuredRun, number: int) -> str:
    """A line about a run for the log. `number`: the round's number, from 0."""
    spent = run.spent
    return (
        f"round {number + 1} {run.peer:20} {run.dataset_name:40} {spent.wall_s:7.2f} s, CPU {spent.cpu_s:6.1f} s, "
        f"other processes {spent.foreign_cores:.2f} cores, JVM {spent.jvm_bytes / 1e9:.2f} GB, "
        f"Python {spent.python_bytes / 1e9:.2f} GB"
    )


def _identity(name: str) -> object:
    """A value that identifies a file or an object; equal for hard links to one file."""
    if "://" in name:
        return name  # no object is ever overwritten
    status = Path(name).stat()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
