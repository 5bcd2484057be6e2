"""A process that measures one peer: `python -m benchmarks.peer_process JOB.json`. Each run prints one line of JSON.

The peer runs on small files first, and then once on each data set, so that the measured runs are warm. The tables are
not checked here: they stay on disk until the process that started this one has checked them.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.input_files import InputFiles
from benchmarks.json_records import from_plain, read_record
from benchmarks.peer import Peer, PeerResult
from benchmarks.peers.registry import ENTRIES, JOB, JOB_GENERAL_PLAN, PLAIN
from benchmarks.resource_usage import ResourceUsage, measure_usage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL_RUNS = 2
LINE = "RUN "


@dataclass(frozen=True)
class PeerJob:
    """`inputs` and `small`: paths of stored InputFiles. `warm_up`: run once on each of `inputs` before measuring."""

    peer: str
    inputs: tuple[str, ...]
    small: str | None
    out: str
    repeats: int
    warm_up: bool


@dataclass(frozen=True)
class MeasuredRun:
    """One measured run on the data set `inputs`. `shuffled` and `written` are bytes."""

    peer: str
    inputs: str
    repeat: int
    spent: ResourceUsage
    result: PeerResult
    shuffled: int
    written: int


def main(path: str) -> None:
    job: PeerJob = read_record(PeerJob, Path(path))
    peer = ENTRIES[job.peer].make(lambda: _session(ENTRIES[job.peer].spark))
    if job.small:
        small: InputFiles = read_record(InputFiles, Path(job.small))
        for number in range(_SMALL_RUNS):
            _measure(job, peer, small, f"small-{number}", delete=True)
    inputs = [read_record(InputFiles, Path(name)) for name in job.inputs]
    if job.warm_up:
        for number, warm_up_inputs in enumerate(inputs):
            _measure(job, peer, warm_up_inputs, f"warm-up-{number}", delete=True)
    for repeat in range(job.repeats):
        for number, measured_inputs in enumerate(inputs):
            run = _measure(job, peer, measured_inputs, f"{number}-{repeat}", delete=False, repeat=repeat)
            print(LINE + json.dumps(asdict(run)), flush=True)


def read_line(line: str) -> MeasuredRun | None:
    if not line.startswith(LINE):
        return None
    run: MeasuredRun = from_plain(MeasuredRun, json.loads(line.removeprefix(LINE)))
    return run


@lru_cache(maxsize=1)
def _session(kind: str) -> SparkSession:
    from benchmarks.spark_sessions import general_plan_session, job_session, plain_session

    start_by_kind: dict[str, Callable[[], SparkSession]] = {
        JOB: job_session,
        JOB_GENERAL_PLAN: general_plan_session,
        PLAIN: plain_session,
    }
    session = start_by_kind[kind]()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _measure(job: PeerJob, peer: Peer, inputs: InputFiles, name: str, *, delete: bool, repeat: int = -1) -> MeasuredRun:
    out = Path(job.out) / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    peer.prepare(inputs, out)
    gc.collect()
    before = _spark_bytes(job.peer)
    with measure_usage() as spent:
        returned = peer.run(inputs, out)
    result = peer.result(inputs, out, returned)
    written = result.bytes_written if result.bytes_written is not None else _written_bytes(out)
    after = _spark_bytes(job.peer)
    if ENTRIES[job.peer].spark == PLAIN:
        result = replace(result, bytes_read=after.read - before.read)
    run = MeasuredRun(job.peer, inputs.name, repeat, spent, result, after.shuffled - before.shuffled, written)
    if delete:
        shutil.rmtree(out)
    return run


@dataclass(frozen=True)
class _SparkBytes:
    """The bytes that Spark has read from files and written for shuffles so far. Reads by Python are not counted."""

    read: int = 0
    shuffled: int = 0


def _spark_bytes(peer: str) -> _SparkBytes:
    if not ENTRIES[peer].spark:
        return _SparkBytes()
    context = _session(ENTRIES[peer].spark).sparkContext
    java = context._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    summaries = java.statusStore().executorList(False)
    executors = [summaries.apply(number) for number in range(summaries.size())]
    read = sum(int(executor.totalInputBytes()) for executor in executors)
    return _SparkBytes(read, sum(int(executor.totalShuffleWrite()) for executor in executors))


def _written_bytes(folder: Path) -> int:
    """The bytes of the Parquet files in a folder, without hard links, because the job writes no bytes for these."""
    paths = [Path(place) / name for place, _, names in os.walk(folder) for name in names]
    return sum(path.stat().st_size for path in paths if path.suffix == ".parquet" and path.stat().st_nlink == 1)


if __name__ == "__main__":
    main(sys.argv[1])
