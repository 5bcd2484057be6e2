"""Publishes the parent generation of a data set once with the dedup job, so that every measured run can build on it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.dataset import ARRIVING_LANDING, GENERATOR_VERSION, PARENT_LANDING
from benchmarks.dataset_shape import DatasetShape
from benchmarks.generated_rows import OLDEST_ID, PARENT_ID, snapshot_ids
from benchmarks.input_files import DateFiles, InputFiles
from benchmarks.json_records import write_record
from benchmarks.paths import CHECKOUT
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.contract.request import DedupRequest, ParentGeneration
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from testkit.spark_job_feed import SparkJobFeed

_FINGERPRINTS = "fingerprints"


@lru_cache(maxsize=1)
def code_digest() -> str:
    """The digest of the job's code and of the generator's version.

    When the digest changes, parents are published again, because the job may write other files.
    """
    folders = (CHECKOUT / "spark_jobs/dedup_spark", CHECKOUT / "plugins/dedup_clone/contract")
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return sha256(b"".join([f"{GENERATOR_VERSION}".encode(), *(path.read_bytes() for path in files)])).hexdigest()


def publish_parent(
    shape: DatasetShape,
    table: TableContract,
    folder: Path,
    snapshot_rows: int,
    emulator: str | None = None,
    session: SparkSession | None = None,
) -> InputFiles:
    """Publish the parent below `folder`, or in the emulator's buckets. Returns the files of parent and snapshots.

    `snapshot_rows`: the number of rows in the newest arriving snapshot. `emulator`: the URL of the emulated Cloud
    Storage, None for files of this machine. `session`: the job's Spark session; without one, its tasks run in this
    process.
    """
    record = folder / ("input_files-storage.json" if emulator else "input_files.json")
    record.unlink(missing_ok=True)
    shutil.rmtree(folder / "state", ignore_errors=True)
    feed = _make_feed(folder, table, emulator, PARENT_LANDING)
    feed.session = session
    for snapshot_id in (OLDEST_ID, PARENT_ID):
        if storage.list_objects(feed.uri(feed.folder(snapshot_id))):
            candidate = feed.publish(feed.arrive(snapshot_id))
            if candidate.refused:
                raise RuntimeError(f"The job refused the benchmark's own rows: {candidate.refused[0].reason}")
    assert feed.manifest
    _write_parent(folder, feed.manifest, feed.parent)
    if not emulator:
        _link_data_without_fingerprints(Path(feed.data_uri()))
    arriving = _make_feed(folder, table, emulator, ARRIVING_LANDING)
    inputs = _describe_inputs(shape, feed, arriving, folder, snapshot_rows, emulator)
    write_record(record, inputs)
    return inputs


def _make_feed(folder: Path, table: TableContract, emulator: str | None, landing: str) -> SparkJobFeed:
    """A feed of the data set, without a generation. The emulator has one landing bucket for all snapshots.

    `landing`: PARENT_LANDING or ARRIVING_LANDING.
    """
    bucket = PARENT_LANDING if emulator else str(folder / landing)
    return SparkJobFeed(None, bucket, "gs://state/feed" if emulator else str(folder / "state"), table)


def open_feed(
    inputs: InputFiles, session: SparkSession | None, out: Path, *, stored_fingerprints: bool
) -> SparkJobFeed:
    """A feed whose live generation is the published parent, and whose next attempt writes to `out`.

    `stored_fingerprints`: whether the job finds the parent's stored fingerprints. Otherwise it computes them.
    """
    folder = Path(inputs.prepared)
    manifest, parent = _read_parent(folder)
    feed = _make_feed(folder, manifest.table, inputs.emulator, ARRIVING_LANDING)
    feed.session, feed.manifest, feed.parent = session, manifest, parent
    # The numbers of the next deliveries: a correction must be newer than the parent's delivery of the same snapshot id.
    feed._next_numbers = itertools.count(parent.generation + 1)
    seed_uri = storage.join(feed.state, "fingerprint_seed")
    feed.state = f"gs://state/runs/{out.parent.name}-{out.name}" if inputs.emulator else str(out)
    storage.copy(seed_uri, storage.join(feed.state, "fingerprint_seed"))  # stored fingerprints depend on the seed
    if not stored_fingerprints:
        data = f"{parent.data_uri.rstrip('/')}-{_FINGERPRINTS}-removed/"
        feed.parent = ParentGeneration(
            parent.generation, parent.manifest_uri, parent.file_list_uri, parent.file_list_digest, data
        )
    return feed


def request_publish(feed: SparkJobFeed, inputs: InputFiles) -> DedupRequest:
    """The dedup job's request for the measured publish, which includes all arriving snapshots."""
    return feed.request([feed.arrive(snapshot_id) for snapshot_id in inputs.snapshot_ids])


def _write_parent(folder: Path, manifest: Manifest, parent: ParentGeneration | None) -> None:
    assert parent
    (folder / "manifest.json").write_text(to_json(manifest))
    (folder / "parent.json").write_text(to_json(parent))


def _read_parent(folder: Path) -> tuple[Manifest, ParentGeneration]:
    manifest, parent = folder / "manifest.json", folder / "parent.json"
    return (
        from_json(Manifest, manifest.read_text(), where=str(manifest)),
        from_json(ParentGeneration, parent.read_text(), where=str(parent)),
    )


def _link_data_without_fingerprints(data: Path) -> None:
    """Make a second data folder of the parent: hard links to its files, without the files of fingerprints."""
    copy = data.with_name(f"{data.name}-{_FINGERPRINTS}-removed")
    shutil.rmtree(copy, ignore_errors=True)
    link: Callable[[str, str], object] = lambda source, target: Path(target).hardlink_to(source)  # noqa: E731
    shutil.copytree(data, copy, copy_function=link, ignore=shutil.ignore_patterns(_FINGERPRINTS))


def _describe_inputs(
    shape: DatasetShape, feed: SparkJobFeed, arriving: SparkJobFeed, folder: Path, rows: int, emulator: str | None
) -> InputFiles:
    """The files of parent and snapshots.

    `feed`: the feed after it has published the parent. `arriving`: the same feed, with the arriving snapshots in its
    landing folder. `rows`: the number of rows in the newest arriving snapshot.
    """
    assert feed.manifest
    parent_files = feed.files().files
    landed = [info for snapshot_id in snapshot_ids(shape) for info in arriving.arrive(snapshot_id).objects]
    days = sorted({str(file.date) for file in parent_files} | {_day(info.name) for info in landed})
    return InputFiles(
        name=shape.name,
        code=code_digest(),
        prepared=str(folder),
        snapshot_ids=snapshot_ids(shape),
        string_keys=shape.string_keys,
        parent_rows=feed.manifest.rows,
        snapshot_rows=rows,
        parent_bytes=sum(file.size for file in parent_files),
        snapshot_bytes=sum(info.size for info in landed),
        emulator=emulator,
        dates=tuple(
            DateFiles(
                day,
                tuple(storage.join(feed.data_uri(), file.path) for file in parent_files if str(file.date) == day),
                tuple(arriving.uri(info.name) for info in landed if _day(info.name) == day),
            )
            for day in days
        ),
    )


def _day(name: str) -> str:
    """The date in the name of a landed file."""
    return name.split("date=")[1].split("/")[0]
