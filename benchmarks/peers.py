"""The peers: this job with its plans, other ways of making the same table, and a lower bound that only reads."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from benchmarks.dataset import COLUMNS, DATED_KEYS, KEYS, WORK, Inputs, RowCounts
from benchmarks.prepare import attempt_publish, open_feed
from benchmarks.spark_sessions import job_session, plain_session
from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json
from dedup_spark import storage
from dedup_spark.execution.fan_out import divide
from dedup_spark.execution.progress import JobLog
from dedup_spark.job import DedupJob


@dataclass(frozen=True)
class PeerResult:
    """What a run made, besides its measured time and memory.

    `files`: the Parquet files that together are the new table; None for a peer that makes no table. `counts`: what the
    peer counted; None if it counts nothing. `plans`: the plans of the job, by number of dates.
    """

    files: tuple[str, ...] | None
    counts: RowCounts | None = None
    plans: str = ""


class Peer(ABC):
    """One way of making the new table. `session`: returns the process's Spark session; DuckDB does not call it."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self.session = session

    def prepare(self, inputs: Inputs, out: Path) -> None:  # noqa: B027 - most peers need no preparation
        """Do what must precede a run and is not measured. `out`: the folder for this run, empty at the beginning."""

    @abstractmethod
    def run(self, inputs: Inputs, out: Path) -> object:
        """Do the work that is measured. The return value is passed to `result` as `returned`."""

    def result(self, inputs: Inputs, out: Path, returned: object) -> PeerResult:
        """Describe what the run made; this is not measured. By default all Parquet files in `out` are the table."""
        return PeerResult(tuple(parquet_files(out)))


def parquet_files(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.rglob("*.parquet"))]


class DedupJobPeer(Peer):
    """This project's job, from the attempt to the candidate. `plan` and `exact` are fields of the attempt."""

    def __init__(self, session: Callable[[], SparkSession], plan: Plan = Plan.AUTO, *, exact: bool = False) -> None:
        super().__init__(session)
        self._plan, self._exact = plan, exact

    def prepare(self, inputs: Inputs, out: Path) -> None:
        feed = open_feed(inputs.shape, self.session(), out)
        feed.plan, feed.exact = self._plan, self._exact
        self._attempt = attempt_publish(feed, inputs)

    def run(self, inputs: Inputs, out: Path) -> Attempt:
        DedupJob(self._attempt, self.session, JobLog(self._attempt)).run()
        return self._attempt

    def result(self, inputs: Inputs, out: Path, returned: object) -> PeerResult:
        assert isinstance(returned, Attempt)
        uri = storage.join(returned.folder_uri, "candidate.json")
        candidate = from_json(Candidate, storage.read_text(uri), where=uri)
        if candidate.manifest is None or candidate.load_uris_uri is None:
            raise RuntimeError(f"The job refused the benchmark's own rows: {candidate.refused[0].reason}")
        dates = candidate.manifest.dates
        counts = RowCounts(
            new=sum(entry.new_keys for entry in dates),
            changed=sum(entry.changed or 0 for entry in dates),
            survivors=sum(entry.survivors for entry in dates),
            duplicates=sum(entry.ties for entry in dates),
        )
        plans = Counter(str(entry.plan) for entry in dates)
        return PeerResult(
            files=tuple(storage.read_text(candidate.load_uris_uri).splitlines()),
            counts=counts,
            plans=", ".join(f"{plan} {count}" for plan, count in sorted(plans.items())),
        )


class ReadBoth(Peer):
    """A lower bound for peers that read whole inputs: pyarrow reads all columns, in as many tasks as the job."""

    def run(self, inputs: Inputs, out: Path) -> int:
        context = self.session().sparkContext
        files = [[*date_files.parent, *date_files.snapshot] for date_files in inputs.dates]
        sizes = [sum(os.path.getsize(file) for file in of_date) for of_date in files]
        tasks = divide(sizes, context.defaultParallelism)
        task_files = [list(chain.from_iterable(files[number] for number in numbers)) for numbers in tasks]
        return sum(context.parallelize(task_files, len(tasks)).map(_count_rows).collect())

    def result(self, inputs: Inputs, out: Path, returned: object) -> PeerResult:
        return PeerResult(None)


def _count_rows(files: list[str]) -> int:
    return sum(pq.ParquetFile(file).read(columns=list(COLUMNS), use_threads=False).num_rows for file in files)


class SparkRowNumber(Peer):
    """The reference method on Spark: ROW_NUMBER over parent and snapshot; row 1 of each key stays."""

    def run(self, inputs: Inputs, out: Path) -> None:
        both = self.session().read.parquet(*inputs.parent_files(), *inputs.snapshot_files())
        newest_first = Window.partitionBy(*DATED_KEYS).orderBy(f.col("update_id").desc(), f.col("attr_value").desc())
        _write_table(both.withColumn("number", f.row_number().over(newest_first)).where("number = 1"), out)


class SparkAntiJoin(Peer):
    """The snapshot, and the parent's rows whose key the snapshot lacks, with the join that is faster here.

    The peer assumes what plan `adopt` proves: the snapshot is newer than the parent, and no two rows of it have the
    same key.
    """

    def run(self, inputs: Inputs, out: Path) -> None:
        new = self.session().read.parquet(*inputs.snapshot_files())
        old = self.session().read.parquet(*inputs.parent_files())
        keys = new.select(*DATED_KEYS).hint("shuffle_hash")
        _write_table(new.unionByName(old.join(keys, list(DATED_KEYS), "left_anti").select(*new.columns)), out)


def _write_table(rows: DataFrame, out: Path) -> None:
    rows.select(*COLUMNS).write.mode("append").partitionBy("date").parquet(str(out))


class DuckDbSurvivors(Peer):
    """DuckDB's anti-join, date by date. Like `adopt`, it writes survivors only; the snapshot's files are adopted.

    It assumes what `adopt` proves, as SparkAntiJoin does.
    """

    def run(self, inputs: Inputs, out: Path) -> None:
        connection = duckdb.connect()
        for setting in ("threads=2", "preserve_insertion_order=false", "memory_limit='10GB'"):
            connection.execute(f"SET {setting}")
        connection.execute(f"SET temp_directory='{WORK / 'duckdb'}'")
        for date_files in inputs.dates:
            parent, snapshot = (
                f"read_parquet({list(files)}, hive_partitioning=false)"
                for files in (date_files.parent, date_files.snapshot)
            )
            join = f"{parent} old ANTI JOIN {snapshot} new USING ({', '.join(KEYS)})"
            rows = f"SELECT {', '.join(COLUMNS)} FROM {join}"
            target = out / f"{date_files.day}.parquet"
            connection.execute(f"COPY ({rows}) TO '{target}' (format parquet, compression zstd, compression_level 1)")

    def result(self, inputs: Inputs, out: Path, returned: object) -> PeerResult:
        return PeerResult((*inputs.snapshot_files(), *parquet_files(out)))


@dataclass(frozen=True)
class Entry:
    """How a peer is made and how often it runs by default. `title`: its name in tables.

    `start`: starts its Spark session. Each of the `rounds` is a process with `repeats` measured runs.
    """

    title: str
    make: Callable[[Callable[[], SparkSession]], Peer]
    start: Callable[[], SparkSession] = field(default=job_session)
    rounds: int = 3
    repeats: int = 3


ADOPT, ADOPT_ONE_CORE, ROW_NUMBER, READ_BOTH, WINDOW = "adopt", "adopt-one-core", "row-number", "read-both", "window"
_one_core = partial(job_session, cores=1)

ENTRIES: dict[str, Entry] = {
    READ_BOTH: Entry("pyarrow reads all columns of both inputs, in Spark tasks", ReadBoth),
    ADOPT: Entry("**this job: adopt**", DedupJobPeer),
    "adopt-exact": Entry("**this job: adopt**, `exact`", partial(DedupJobPeer, exact=True), rounds=1, repeats=2),
    "rewrite": Entry("**this job: rewrite**", partial(DedupJobPeer, plan=Plan.REWRITE), rounds=1, repeats=1),
    WINDOW: Entry("**this job: window**", partial(DedupJobPeer, plan=Plan.WINDOW), rounds=1, repeats=1),
    # With one core one task processes a whole date, so its worker shows the memory of that date.
    ADOPT_ONE_CORE: Entry("**this job: adopt**, one core", DedupJobPeer, start=_one_core, rounds=1, repeats=1),
    "duckdb": Entry("DuckDB anti-join, survivors only", DuckDbSurvivors),
    "spark-antijoin": Entry("Spark anti-join, shuffled hash", SparkAntiJoin, start=plain_session, rounds=1, repeats=1),
    ROW_NUMBER: Entry("Spark ROW_NUMBER", SparkRowNumber, start=plain_session, rounds=1, repeats=1),
}
COMPARED = [name for name in ENTRIES if name not in (WINDOW, ADOPT_ONE_CORE)]
