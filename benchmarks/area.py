"""The product on a benchmark's files: publishes the state once, and the arriving snapshot as often as one likes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.inputs import DateFiles, Inputs
from benchmarks.layout import CHECKOUT
from benchmarks.records import write_record
from benchmarks.rows import OLDEST_ID, STATE_ID, snapshot_id
from benchmarks.sessions import product_session
from benchmarks.shape import Shape
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.contract.request import ParentGeneration
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from tests.spark.feed_area import FeedArea

_FINGERPRINTS = "fingerprints"


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Of the job's code: a state is published again when it changes, for it may be written in another way."""
    folders = (CHECKOUT / "spark_jobs/dedup_spark", CHECKOUT / "plugins/dedup_clone/contract")
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@lru_cache(maxsize=1)
def one_session() -> SparkSession:
    """This process's session, started when a job is too large for the driver."""
    return product_session()


class Area(FeedArea):
    """A feed whose jobs start Spark only when they need it."""

    def _session(self) -> SparkSession:
        return self.session or one_session()


def prepare(
    shape: Shape, table: TableContract, folder: Path, snapshot_rows: int, emulator: str | None = None
) -> Inputs:
    """Publish the state with the product and write down the files: below `folder`, or in the emulator's buckets."""
    record = folder / ("inputs-storage.json" if emulator else "inputs.json")
    record.unlink(missing_ok=True)
    shutil.rmtree(folder / "state", ignore_errors=True)
    area = _area(folder, table, emulator)
    for delivery in (OLDEST_ID, STATE_ID):
        if storage.list_objects(area.uri(area.folder(delivery))):
            candidate = area.publish(area.arrive(delivery))
            if candidate.refused:
                raise RuntimeError(f"The job refused the benchmark's own rows: {candidate.refused[0].reason}")
    assert area.manifest
    write_state(folder, area.manifest, area.parent)
    if not emulator:
        _forget_fingerprints(Path(area.data_uri()))
    inputs = _inputs(shape, area, area.arrive(snapshot_id(shape)), folder, snapshot_rows, emulator)
    write_record(record, asdict(inputs))
    return inputs


def _area(folder: Path, table: TableContract, emulator: str | None) -> Area:
    bucket = "landing" if emulator else str(folder / "landing")
    return Area(None, bucket, "gs://state/feed" if emulator else str(folder / "state"), table)


def open_area(inputs: Inputs, session: SparkSession | None, out: Path, *, carried: bool) -> Area:
    """The published state, with an attempt's files going to `out`. Without `carried` no fingerprints lie beside it."""
    folder = Path(inputs.prepared)
    manifest, parent = read_state(folder)
    area = _area(folder, manifest.table, inputs.emulator)
    area.session, area.manifest, area.parent = session, manifest, parent
    area.state = f"gs://state/runs/{out.parent.name}-{out.name}" if inputs.emulator else str(out)
    if not carried:
        data = f"{parent.data_uri.rstrip('/')}-{_FINGERPRINTS}-forgotten/"
        area.parent = ParentGeneration(
            parent.generation, parent.manifest_uri, parent.file_list_uri, parent.file_list_digest, data
        )
    return area


def write_state(folder: Path, manifest: Manifest, parent: ParentGeneration | None) -> None:
    assert parent
    (folder / "manifest.json").write_text(to_json(manifest))
    (folder / "parent.json").write_text(to_json(parent))


def read_state(folder: Path) -> tuple[Manifest, ParentGeneration]:
    manifest, parent = folder / "manifest.json", folder / "parent.json"
    return (
        from_json(Manifest, manifest.read_text(), where=str(manifest)),
        from_json(ParentGeneration, parent.read_text(), where=str(parent)),
    )


def _forget_fingerprints(data: Path) -> None:
    """The same files once more, as hard links, without the carried fingerprints."""
    twin = data.with_name(f"{data.name}-{_FINGERPRINTS}-forgotten")
    shutil.rmtree(twin, ignore_errors=True)
    link: Callable[[str, str], object] = lambda source, target: Path(target).hardlink_to(source)  # noqa: E731
    shutil.copytree(data, twin, copy_function=link, ignore=shutil.ignore_patterns(_FINGERPRINTS))


def _inputs(shape: Shape, area: Area, arrival: Arrival, folder: Path, rows: int, emulator: str | None) -> Inputs:
    assert area.manifest
    state = area.files().files
    days = sorted({str(file.date) for file in state} | {_day(landed.name) for landed in arrival.objects})
    return Inputs(
        name=shape.name,
        code=code_digest(),
        prepared=str(folder),
        snapshot_id=snapshot_id(shape),
        string_keys=shape.string_keys,
        state_rows=area.manifest.rows,
        snapshot_rows=rows,
        state_bytes=sum(file.size for file in state),
        snapshot_bytes=sum(landed.size for landed in arrival.objects),
        emulator=emulator,
        dates=tuple(
            DateFiles(
                day,
                tuple(storage.join(area.data_uri(), file.path) for file in state if str(file.date) == day),
                tuple(area.uri(landed.name) for landed in arrival.objects if _day(landed.name) == day),
            )
            for day in days
        ),
    )


def _day(name: str) -> str:
    return name.split("date=")[1].split("/")[0]
