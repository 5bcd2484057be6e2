"""Measures one peer in a process of its own: `python -m benchmarks.peer_process SPEC.json`.

If the spec says so, the peer first runs without being measured, so that the measured runs are warm. For each measured
run the process prints one line: `RUN ` and the figures as JSON. The tables of measured runs stay on disk, because the
process that started this one checks them.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.input_files import InputFiles
from benchmarks.json_records import from_json_value, read_record
from benchmarks.peer import Peer, PeerResult
from benchmarks.peers.registry import DATAFRAME_PLAN_SESSION, ENTRIES, JOB_SESSION, ONE_CORE_SESSION, PLAIN_SESSION
from benchmarks.resource_usage import ResourceUsage, measure_usage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL_RUNS = 2  # on the small data set
_LINE_PREFIX = "RUN "


@dataclass(frozen=True)
class PeerProcessSpec:
    """What the process runs, in this order.

    `small_inputs_path`: the path of the stored InputFiles of a small data set, on which the peer first runs without
    being measured; None for no such run. `inputs_paths`: the paths of the InputFiles of the data sets to measure.
    `warm_up`: whether the peer runs once on each of these without being measured. `repeats`: the number of measured
    runs on each. `out`: the folder for all tables.
    """

    peer: str
    inputs_paths: tuple[str, ...]
    small_inputs_path: str | None
    out: str
    repeats: int
    warm_up: bool


@dataclass(frozen=True)
class MeasuredRun:
    """One measured run of `peer` on the data set `dataset_name`.

    `repeat`: the run's number among those of its process on this data set. `shuffled`: the bytes that Spark wrote for
    shuffles, None if they were not counted. `written`: the bytes of the files that the run wrote.
    """

    peer: str
    dataset_name: str
    repeat: int
    spent: ResourceUsage
    result: PeerResult
    shuffled: int | None
    written: int


def main(path: str) -> None:
    """Run and measure the peer. `path`: the path of a stored PeerProcessSpec."""
    spec: PeerProcessSpec = read_record(PeerProcessSpec, Path(path))
    peer = ENTRIES[spec.peer].make(lambda: _start_session(ENTRIES[spec.peer].session_kind))
    if spec.small_inputs_path:
        small: InputFiles = read_record(InputFiles, Path(spec.small_inputs_path))
        for number in range(_SMALL_RUNS):
            _measure(spec, peer, small, f"small-{number}", delete=True)
    inputs = [read_record(InputFiles, Path(name)) for name in spec.inputs_paths]
    if spec.warm_up:
        for number, warm_up_inputs in enumerate(inputs):
            _measure(spec, peer, warm_up_inputs, f"warm-up-{number}", delete=True)
    for repeat in range(spec.repeats):
        for number, measured_inputs in enumerate(inputs):
            run = _measure(spec, peer, measured_inputs, f"{number}-{repeat}", delete=False, repeat=repeat)
            print(_LINE_PREFIX + json.dumps(asdict(run)), flush=True)


def parse_line(line: str) -> MeasuredRun | None:
    """The run that a line of the process's output describes; None if the line describes no run."""
    if not line.startswith(_LINE_PREFIX):
        return None
    run: MeasuredRun = from_json_value(MeasuredRun, json.loads(line.removeprefix(_LINE_PREFIX)))
    return run


@lru_cache(maxsize=1)
def _start_session(kind: str) -> SparkSession:
    """Start the process's Spark session, or return the one that was started. `kind`: see peers.registry."""
    from benchmarks.spark_sessions import dataframe_plan_session, job_session, plain_session

    start_by_kind: dict[str, Callable[[], SparkSession]] = {
        JOB_SESSION: job_session,
        ONE_CORE_SESSION: partial(job_session, cores=1),
        DATAFRAME_PLAN_SESSION: dataframe_plan_session,
        PLAIN_SESSION: plain_session,
    }
    session = start_by_kind[kind]()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _measure(
    spec: PeerProcessSpec, peer: Peer, inputs: InputFiles, name: str, *, delete: bool, repeat: int = -1
) -> MeasuredRun:
    """Run the peer once, and measure it.

    `name`: the name of the run's folder. `delete`: whether to delete the folder afterwards. `repeat`: the run's number,
    from 0; -1 for a run whose figures are not used.
    """
    out = Path(spec.out) / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    peer.prepare(inputs, out)
    gc.collect()
    before = _spark_bytes(spec.peer)
    with measure_usage() as spent:
        returned = peer.run(inputs, out)
    result = peer.result(inputs, out, returned)
    written = result.bytes_written if result.bytes_written is not None else _written_bytes(out)
    after = _spark_bytes(spec.peer)
    # Reads are counted here for plain Spark sessions only. Any other peer counts them itself, or has no such figure.
    if ENTRIES[spec.peer].session_kind == PLAIN_SESSION:
        result = replace(result, bytes_read=after.read - before.read)
    run = MeasuredRun(spec.peer, inputs.name, repeat, spent, result, after.shuffled - before.shuffled, written)
    if delete:
        shutil.rmtree(out)
    return run


@dataclass(frozen=True)
class _SparkBytes:
    """The bytes that Spark's JVM has read from files and written for shuffles since the session started."""

    read: int = 0
    shuffled: int = 0


def _spark_bytes(peer: str) -> _SparkBytes:
    """What Spark has counted in this process; zeros for a peer without Spark."""
    if not ENTRIES[peer].session_kind:
        return _SparkBytes()
    context = _start_session(ENTRIES[peer].session_kind).sparkContext
    java = context._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    summaries = java.statusStore().executorList(False)
    executors = [summaries.apply(number) for number in range(summaries.size())]
    read = sum(int(executor.totalInputBytes()) for executor in executors)
    return _SparkBytes(read, sum(int(executor.totalShuffleWrite()) for executor in executors))


def _written_bytes(folder: Path) -> int:
    """The bytes of the Parquet files in a folder, without hard links to input files, for which nothing is written."""
    paths = [Path(parent) / name for parent, _, names in os.walk(folder) for name in names]
    return sum(path.stat().st_size for path in paths if path.suffix == ".parquet" and path.stat().st_nlink == 1)


if __name__ == "__main__":
    main(sys.argv[1])
