"""Runs several peers in turn, checks the tables that they make, and measures each in a process of its own.

Peers A, B and C run in the order A B C A B C, so that a change of the machine's load affects all peers alike. Each
letter stands for a round of that peer: a process (`python -m benchmarks.rounds SPEC.json`) with one or more measured
runs, for each of which it prints one line: `RUN ` and the figures as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.dataset import CHECKOUT, COLUMNS, WORK, DatasetShape, Inputs
from benchmarks.peers import ENTRIES, Peer, PeerResult
from benchmarks.prepare import SMALL, prepared
from benchmarks.resource_usage import ResourceUsage, measure_usage
from benchmarks.spark_sessions import pythonpath_variable
from dedup_clone.contract.records import from_json, to_plain

_TIMEOUT_S = 1800
_SMALL_RUNS = 2  # on a small data set, before anything is measured
_LINE_PREFIX = "RUN "


class PeerFailed(Exception):
    """A peer's process failed, or the peer made a table or counts that differ from the expected ones."""


@dataclass(frozen=True)
class Schedule:
    """The data sets on which a peer runs. Each of the `rounds` is a process with `repeats` measured runs on each."""

    peer: str
    shapes: tuple[DatasetShape, ...]
    rounds: int
    repeats: int


@dataclass(frozen=True)
class MeasuredRun:
    """One measured run. `shuffled`: the bytes that Spark wrote for shuffles."""

    peer: str
    shape: DatasetShape
    usage: ResourceUsage
    result: PeerResult
    shuffled: int


def run_rounds(schedules: Sequence[Schedule]) -> tuple[list[MeasuredRun], dict[str, str]]:
    """All measured runs, and for each peer that failed or made a wrong table the reason; it has no runs."""
    runs: list[MeasuredRun] = []
    failures: dict[str, str] = {}
    for number in range(max(schedule.rounds for schedule in schedules)):
        for schedule in schedules:
            if number < schedule.rounds and schedule.peer not in failures:
                try:
                    runs += _run_round(schedule, number)
                except (PeerFailed, subprocess.TimeoutExpired) as failure:
                    failures[schedule.peer] = str(failure)
                    _log(str(failure))
    return [run for run in runs if run.peer not in failures], failures


def _run_round(schedule: Schedule, number: int) -> list[MeasuredRun]:
    """Run one process of the peer. Raises PeerFailed or TimeoutExpired. `number`: the round's number, from 0."""
    (WORK / "runs").mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{schedule.peer}-", dir=WORK / "runs"))
    try:
        (folder / "spec.json").write_text(json.dumps(to_plain(schedule)))
        runs = _run_process(schedule.peer, folder)
        for run in runs:
            usage = run.usage
            _log(
                f"round {number + 1} {run.peer:15} {run.shape.name:40} {usage.wall_s:7.2f} s, CPU {usage.cpu_s:6.1f} s,"
                f" other processes {usage.foreign_cores:.2f} cores"
            )
            _check(run, prepared(run.shape))
        return runs
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_process(peer: str, folder: Path) -> list[MeasuredRun]:
    command = [sys.executable, "-m", "benchmarks.rounds", str(folder / "spec.json")]
    environment = {**os.environ, "PYTHONPATH": pythonpath_variable()}
    with (folder / "log").open("w+") as log:
        done = subprocess.run(
            command,
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
            raise PeerFailed(f"Peer [{peer}] failed, the end of its log: {log.read()[-3000:]}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(_LINE_PREFIX)]
    return [from_json(MeasuredRun, line.removeprefix(_LINE_PREFIX), where=peer) for line in lines]


def _check(run: MeasuredRun, inputs: Inputs) -> None:
    """Raise PeerFailed if the table or the counts of a run differ from those of its data set."""
    found = run.result
    if found.counts not in (None, inputs.counts):
        raise PeerFailed(f"Peer [{run.peer}] counted [{found.counts}] in [{run.shape.name}], not [{inputs.counts}].")
    if found.files is not None and _digest(found.files) != _expected_digest(inputs.expected):
        raise PeerFailed(f"Peer [{run.peer}] made a wrong table from [{run.shape.name}].")


def _digest(files: tuple[str, ...]) -> object:
    """The number of rows of these files, and the sum and exclusive-or of their hashes, by DuckDB.

    Files that Spark wrote have the date only in the name of their folder.
    """
    is_in_folder = str("date" not in pq.read_schema(files[0]).names).lower()
    rows = f"read_parquet({list(files)}, hive_partitioning={is_in_folder}, union_by_name=true)"
    hashed = f"hash({', '.join(COLUMNS)})"
    query = f"SELECT count(*), sum({hashed}), bit_xor({hashed}) FROM {rows}"
    return duckdb.connect().execute(query).fetchone()


@lru_cache
def _expected_digest(files: tuple[str, ...]) -> object:
    return _digest(files)


def _log(text: str) -> None:
    """Print progress to stderr; stdout is for the tables of results."""
    print(text, file=sys.stderr, flush=True)


def main(path: str) -> None:
    """Run and measure one peer. `path`: the path of a stored Schedule."""
    schedule = from_json(Schedule, Path(path).read_text(), where=path)
    folder = Path(path).parent
    entry = ENTRIES[schedule.peer]
    start = lru_cache(entry.start)
    peer = entry.make(start)
    warm_ups = [SMALL] * _SMALL_RUNS + list(schedule.shapes if schedule.repeats > 1 else ())
    for number, shape in enumerate(warm_ups):
        _measure(peer, schedule.peer, shape, folder / f"warm-up-{number}")
        shutil.rmtree(folder / f"warm-up-{number}")
    for repeat in range(schedule.repeats):
        for number, shape in enumerate(schedule.shapes):
            before = _shuffled_bytes()
            usage, result = _measure(peer, schedule.peer, shape, folder / f"{number}-{repeat}")
            run = MeasuredRun(schedule.peer, shape, usage, result, _shuffled_bytes() - before)
            print(_LINE_PREFIX + json.dumps(to_plain(run)), flush=True)


def _measure(peer: Peer, name: str, shape: DatasetShape, out: Path) -> tuple[ResourceUsage, PeerResult]:
    """Run the peer once, and measure it. Its table stays in `out`, because the process that started this checks it."""
    inputs = prepared(shape)
    out.mkdir(parents=True)
    peer.prepare(inputs, out)
    gc.collect()
    with measure_usage() as usage:
        returned = peer.run(inputs, out)
    return usage, peer.result(inputs, out, returned)


def _shuffled_bytes() -> int:
    """What Spark's JVM has written for shuffles since the session started; 0 without a session."""
    session = SparkSession.getActiveSession()
    if session is None:
        return 0
    java = session.sparkContext._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    executors = java.statusStore().executorList(False)
    return sum(int(executors.apply(number).totalShuffleWrite()) for number in range(executors.size()))


if __name__ == "__main__":
    main(sys.argv[1])
