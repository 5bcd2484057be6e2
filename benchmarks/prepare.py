"""Prepares data sets: generates their files, and publishes the parent generation of each with the dedup job.

Prepared data sets stay on disk for later runs. Preparation runs in a process of its own (`python -m benchmarks.prepare
SHAPES.json`), so that its Spark session ends before anything is measured.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.dataset import CHECKOUT, WORK, DatasetShape, DateFiles, Inputs, RowCounts
from benchmarks.generated_rows import OLDEST_ID, PARENT_ID, GeneratedRows, block_count, make_block, snapshot_ids
from benchmarks.spark_sessions import job_session, pythonpath_variable
from dedup_clone.contract.attempt import Attempt, ParentFiles
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import from_json, to_json
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from testkit.spark_job_feed import FEED, SparkJobFeed

SMALL = DatasetShape(130_000)
# Folders of a data set into which the parent's snapshots and the arriving snapshots land, and of the expected table.
_PARENT_LANDING, _ARRIVING_LANDING, _EXPECTED = "landing", "arriving", "expected"


@dataclass(frozen=True)
class _Shapes:
    shapes: tuple[DatasetShape, ...]


def prepared(shape: DatasetShape) -> Inputs:
    """The data set of a shape, which `prepare_all` must have prepared. Raises FileNotFoundError if it has not."""
    path = shape.folder / "inputs.json"
    return from_json(Inputs, path.read_text(), where=str(path))


def prepare_all(shapes: Sequence[DatasetShape]) -> None:
    """Prepare the data sets that are missing, and those that another version of this code or of the job prepared."""
    missing = tuple(shape for shape in dict.fromkeys(shapes) if not _is_current(shape))
    if not missing:
        return
    print(f"preparing {len(missing)} data sets below {WORK}", file=sys.stderr, flush=True)
    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / "shapes.json"
    path.write_text(to_json(_Shapes(missing)))
    environment = {**os.environ, "PYTHONPATH": pythonpath_variable()}
    subprocess.run([sys.executable, "-m", "benchmarks.prepare", str(path)], cwd=CHECKOUT, env=environment, check=True)


def _is_current(shape: DatasetShape) -> bool:
    try:
        return prepared(shape).code == code_digest()
    except (FileNotFoundError, ContractViolation):
        return False


@lru_cache(maxsize=1)
def code_digest() -> str:
    """The digest of the code of the job and of this package's generator."""
    folders = (CHECKOUT / "spark_jobs/dedup_spark", CHECKOUT / "plugins/dedup_clone/contract")
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    files += [Path(__file__).with_name(name) for name in ("dataset.py", "generated_rows.py", "prepare.py")]
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def main(path: str) -> None:
    """Prepare data sets. `path`: the path of a JSON file with their shapes."""
    shapes = from_json(_Shapes, Path(path).read_text(), where=path).shapes
    # All files are generated first, so that the processes that generate them do not run beside Spark.
    counts = [_generate(shape) for shape in shapes]
    session = job_session()
    for shape, (rows, right) in zip(shapes, counts, strict=True):
        feed = _publish_parent(shape, session)
        (shape.folder / "inputs.json").write_text(to_json(_describe(shape, feed, rows, right)))
    session.stop()


def _generate(shape: DatasetShape) -> tuple[int, RowCounts]:
    """Generate the files. Returns the number of rows in the newest snapshot, and the right counts."""
    shutil.rmtree(shape.folder, ignore_errors=True)
    # This process may have threads of pyarrow or Spark, and a fork of such a process can hang.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([__name__])
    blocks = [(number, block) for number in range(shape.dates) for block in range(block_count(shape))]
    with ProcessPoolExecutor(2, mp_context=server) as pool:
        written = list(pool.map(partial(_write_block, shape), blocks))
    return sum(rows for rows, _ in written), sum((counts for _, counts in written), RowCounts())


def _write_block(shape: DatasetShape, numbers: tuple[int, int]) -> tuple[int, RowCounts]:
    """Write the files of a block (see generated_rows). `numbers`: of the date and of its block, both from 0."""
    date_number, block_number = numbers
    block = make_block(shape, date_number, block_number)
    write = partial(_write_rows, shape, date_number, block_number)
    write(f"{_PARENT_LANDING}/{FEED}/snapshot_id={OLDEST_ID}", block.oldest)
    write(f"{_PARENT_LANDING}/{FEED}/snapshot_id={PARENT_ID}", block.parent)
    for snapshot_id, rows in zip(snapshot_ids(shape), block.arriving, strict=True):
        write(f"{_ARRIVING_LANDING}/{FEED}/snapshot_id={snapshot_id}", rows)
    write(_EXPECTED, block.expected)
    return len(block.arriving[-1]), block.counts


def _write_rows(shape: DatasetShape, date_number: int, block_number: int, folder: str, rows: GeneratedRows) -> None:
    if not len(rows):
        return
    day = shape.days()[date_number]
    target = shape.folder / folder / f"date={day}"
    target.mkdir(parents=True, exist_ok=True)
    keys, schema = rows.keys, arrow_schema(shape.table.columns)
    product = pa.array(keys.product)
    if shape.string_keys:
        unique, index = np.unique(keys.product, return_inverse=True)
        product = pa.array([f"product-{number:09}" for number in unique]).take(pa.array(index))
    columns = [pa.repeat(pa.scalar(day), len(rows)), product, keys.store, keys.attribute, rows.values, rows.ids]
    table = pa.table([pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    bounds = np.linspace(0, len(rows), shape.file_count(len(rows)) + 1).astype(int)
    for number, (start, end) in enumerate(pairwise(bounds)):
        path = target / f"part-{block_number:03}-{number:03}.parquet"
        pq.write_table(table.slice(start, end - start), path, compression="zstd")


def _make_feed(shape: DatasetShape, landing: str) -> SparkJobFeed:
    """A feed of the data set, without a generation."""
    return SparkJobFeed(None, str(shape.folder / landing), str(shape.folder / "state"), shape.table)


def _publish_parent(shape: DatasetShape, session: SparkSession) -> SparkJobFeed:
    """Publish the parent's snapshots. Returns the feed, and stores what `open_feed` needs."""
    feed = _make_feed(shape, _PARENT_LANDING)
    feed.session = session
    for snapshot_id in (OLDEST_ID, PARENT_ID):
        if storage.list_objects(feed.uri(feed.folder(snapshot_id))):
            candidate = feed.publish(feed.arrive(snapshot_id))
            if candidate.refused:
                raise RuntimeError(f"The job refused the benchmark's own rows: {candidate.refused[0].reason}")
    assert feed.manifest
    assert feed.parent
    (shape.folder / "manifest.json").write_text(to_json(feed.manifest))
    (shape.folder / "parent.json").write_text(to_json(feed.parent))
    return feed


def open_feed(shape: DatasetShape, session: SparkSession, out: Path) -> SparkJobFeed:
    """A feed whose live generation is the published parent, and whose next attempt writes to `out`."""
    manifest, parent = shape.folder / "manifest.json", shape.folder / "parent.json"
    feed = _make_feed(shape, _ARRIVING_LANDING)
    feed.session = session
    feed.manifest = from_json(Manifest, manifest.read_text(), where=str(manifest))
    feed.parent = from_json(ParentFiles, parent.read_text(), where=str(parent))
    # The numbers of the next deliveries: a correction must be newer than the parent's delivery of the same snapshot id.
    feed._next_numbers = itertools.count(feed.manifest.generation + 1)
    seed = storage.join(feed.state, "fingerprint_seed")
    feed.state = str(out)
    storage.copy(seed, storage.join(feed.state, "fingerprint_seed"))  # stored sketches depend on the seed
    return feed


def attempt_publish(feed: SparkJobFeed, inputs: Inputs) -> Attempt:
    """The attempt of the measured publish, which includes all arriving snapshots."""
    return feed.attempt([feed.arrive(snapshot_id) for snapshot_id in inputs.snapshot_ids])


def _describe(shape: DatasetShape, feed: SparkJobFeed, rows: int, counts: RowCounts) -> Inputs:
    """The data set, whose parent `feed` has published."""
    parent_files = feed.files().files
    arriving = _make_feed(shape, _ARRIVING_LANDING)
    landed = [info for snapshot_id in snapshot_ids(shape) for info in arriving.arrive(snapshot_id).objects]
    days = [str(day) for day in shape.days()]
    return Inputs(
        shape=shape,
        code=code_digest(),
        snapshot_ids=snapshot_ids(shape),
        rows=rows,
        counts=counts,
        expected=tuple(map(str, sorted((shape.folder / _EXPECTED).rglob("*.parquet")))),
        dates=tuple(
            DateFiles(
                day,
                tuple(storage.join(feed.data_uri(), file.path) for file in parent_files if str(file.date) == day),
                tuple(arriving.uri(info.name) for info in landed if f"date={day}/" in info.name),
            )
            for day in days
        ),
    )


if __name__ == "__main__":
    main(sys.argv[1])
