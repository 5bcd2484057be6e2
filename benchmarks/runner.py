"""A process that measures one peer: `python -m benchmarks.runner JOB.json`. Each run is one line of JSON on stdout.

The peer is run on small files first, and on each of its inputs once more, so that what is measured is warm. Nothing is
verified here: the results stay where they are until the process that started this one has judged them.
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

from benchmarks.inputs import Inputs
from benchmarks.measure import Spent, measuring
from benchmarks.peer import Peer, Result
from benchmarks.peers.registry import ENTRIES, LARGE_PRODUCT, PLAIN, PRODUCT
from benchmarks.records import from_plain, read_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL_RUNS = 2
LINE = "RUN "


@dataclass(frozen=True)
class Job:
    """`inputs` and `small` are paths of Inputs. `rehearse`: each input is run once before it is measured."""

    peer: str
    inputs: tuple[str, ...]
    small: str | None
    out: str
    repeats: int
    rehearse: bool


@dataclass(frozen=True)
class Run:
    """One measured run. `shuffled` and `written` in bytes; the memory figures are peaks."""

    peer: str
    inputs: str
    repeat: int
    spent: Spent
    result: Result
    shuffled: int
    written: int


def main(path: str) -> None:
    job: Job = read_record(Job, Path(path))
    peer = ENTRIES[job.peer].make(lambda: _session(ENTRIES[job.peer].spark))
    if job.small:
        small: Inputs = read_record(Inputs, Path(job.small))
        for number in range(_SMALL_RUNS):
            _measure(job, peer, small, f"small-{number}", forget=True)
    inputs = [read_record(Inputs, Path(name)) for name in job.inputs]
    if job.rehearse:
        for number, rehearsed in enumerate(inputs):
            _measure(job, peer, rehearsed, f"rehearsal-{number}", forget=True)
    for repeat in range(job.repeats):
        for number, measured in enumerate(inputs):
            run = _measure(job, peer, measured, f"{number}-{repeat}", forget=False, repeat=repeat)
            print(LINE + json.dumps(asdict(run)), flush=True)


def read_line(line: str) -> Run | None:
    if not line.startswith(LINE):
        return None
    found: Run = from_plain(Run, json.loads(line.removeprefix(LINE)))
    return found


@lru_cache(maxsize=1)
def _session(kind: str) -> SparkSession:
    from benchmarks.sessions import large_product_session, peer_session, product_session

    starters: dict[str, Callable[[], SparkSession]] = {
        PRODUCT: product_session,
        LARGE_PRODUCT: large_product_session,
        PLAIN: peer_session,
    }
    session = starters[kind]()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _measure(job: Job, peer: Peer, inputs: Inputs, name: str, *, forget: bool, repeat: int = -1) -> Run:
    out = Path(job.out) / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    peer.prepare(inputs, out)
    gc.collect()
    before = _spark_bytes(job.peer)
    with measuring() as spent:
        returned = peer.run(inputs, out)
    result = peer.result(inputs, out, returned)
    written = result.bytes_written if result.bytes_written is not None else _written_bytes(out)
    after = _spark_bytes(job.peer)
    if ENTRIES[job.peer].spark == PLAIN:
        result = replace(result, bytes_read=after.read - before.read)
    run = Run(job.peer, inputs.name, repeat, spent, result, after.shuffled - before.shuffled, written)
    if forget:
        shutil.rmtree(out)
    return run


@dataclass(frozen=True)
class _SparkBytes:
    """What this process's Spark has read from files, and written for shuffles, so far. Python's reading is not seen."""

    read: int = 0
    shuffled: int = 0


def _spark_bytes(peer: str) -> _SparkBytes:
    if not ENTRIES[peer].spark:
        return _SparkBytes()
    context = _session(ENTRIES[peer].spark).sparkContext
    java = context._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    found = java.statusStore().executorList(False)
    executors = [found.apply(number) for number in range(found.size())]
    read = sum(int(executor.totalInputBytes()) for executor in executors)
    return _SparkBytes(read, sum(int(executor.totalShuffleWrite()) for executor in executors))


def _written_bytes(folder: Path) -> int:
    """Files that are hard links of others were not written."""
    found = [Path(place) / name for place, _, names in os.walk(folder) for name in names]
    return sum(path.stat().st_size for path in found if path.suffix == ".parquet" and path.stat().st_nlink == 1)


if __name__ == "__main__":
    main(sys.argv[1])
