"""Compares the job on local files with the job on an emulated Cloud Storage (sub-command `storage`)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.dataset import ARRIVING_LANDING, PARENT_LANDING, table_contract
from benchmarks.dataset_shape import DatasetShape
from benchmarks.docs_tables import table
from benchmarks.interleaved_rounds import InterleavedRounds, PeerSchedule, PreparedDataset, log_progress
from benchmarks.paths import DATA, WORK
from benchmarks.peers.registry import ADOPT
from benchmarks.prepared_datasets import SMALL, prepare_all, prepared_dataset
from benchmarks.published_parent import publish_parent
from benchmarks.results import Results, cpu, run_figures, save, wall
from dedup_spark import storage
from dedup_spark.storage import cloud
from testkit.local_servers import start_fake_gcs
from testkit.spark_job_feed import FEED

COMMAND = "storage"
ROWS = 6_500_000
_ROUNDS, _REPEATS = 1, 5
_HOST_VARIABLE = "STORAGE_EMULATOR_HOST"
_FILES, _OBJECTS = "files", "objects"


def run(rows: int) -> Results:
    """Measure on a snapshot of `rows` rows, and store the results."""
    shape = DatasetShape(rows)
    prepare_all([SMALL, shape], log_progress)
    local = prepared_dataset(shape)
    figures = []
    with emulated_storage() as host:
        objects = _upload(shape, local, host)
        rounds = InterleavedRounds(prepared_dataset(SMALL).inputs_path, log_progress, ((_HOST_VARIABLE, host),))
        for place, dataset in ((_FILES, local), (_OBJECTS, objects)):
            runs = rounds.run([PeerSchedule(ADOPT, (dataset,), _ROUNDS, _REPEATS, warm_up=True)])
            place_figures = [run_figures(run, local.dataset.rows, shape.dates) for run in runs]
            figures += [replace(f, notes={**f.notes, "place": place}) for f in place_figures]
    return save(COMMAND, figures, rounds.failures, is_default_size=rows == ROWS)


@contextmanager
def emulated_storage() -> Iterator[str]:
    """Run an emulated Cloud Storage and yield its URL. Meanwhile all Cloud Storage clients of this process use it."""
    WORK.mkdir(parents=True, exist_ok=True)
    previous_host = os.environ.get(_HOST_VARIABLE)
    with (
        tempfile.TemporaryDirectory(dir=WORK) as folder,
        start_fake_gcs(Path(folder), "landing", "state", in_memory=False) as address,
    ):
        host = f"http://{address}"
        os.environ[_HOST_VARIABLE] = host
        cloud.forget_clients()
        try:
            yield host
        finally:
            os.environ.pop(_HOST_VARIABLE)
            if previous_host:
                os.environ[_HOST_VARIABLE] = previous_host
            cloud.forget_clients()


def _upload(shape: DatasetShape, local: PreparedDataset, host: str) -> PreparedDataset:
    """Upload the files of all snapshots to the emulator's one landing bucket, and publish the parent there.

    `local`: the data set on this machine's disk. `host`: the emulator's URL.
    """
    for landing in (DATA / shape.name / folder for folder in (PARENT_LANDING, ARRIVING_LANDING)):
        for path in sorted((landing / FEED).rglob("*.parquet")):
            with storage.open_output(f"gs://{PARENT_LANDING}/{path.relative_to(landing)}") as stream:
                stream.write(path.read_bytes())
    folder = WORK / "objects" / shape.name
    folder.mkdir(parents=True, exist_ok=True)
    publish_parent(shape, table_contract(shape), folder, local.dataset.rows, host)
    return PreparedDataset(folder / "input_files-storage.json", local.dataset)


def report(results: Results) -> str:
    """The table in Markdown."""
    lines = []
    for place, title in ((_FILES, "files of this machine"), (_OBJECTS, "`gs://`, fake-gcs-server on this machine")):
        place_figures = [f for f in results.figures if f.notes["place"] == place]
        lines.append(
            [
                title,
                f"{place_figures[0].rows:,}",
                str(len(place_figures)),
                f"{wall(place_figures):.2f}",
                f"{cpu(place_figures):.1f}",
            ]
        )
    heads = [
        "adopt, stored fingerprints",
        "rows per input",
        "runs",
        "wall s, median",
        "CPU s",
    ]
    return f"{table(heads, lines)}\n\n{results.made}"
