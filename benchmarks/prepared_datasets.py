"""Prepares data sets: generates their files, and publishes the parent generation of each with the dedup job.

Prepared data sets stay on disk for later runs. Preparation runs in a process of its own (`python -m
benchmarks.prepared_datasets SHAPES.json`), so that its Spark session ends before anything is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.dataset import Dataset, generate, table_contract
from benchmarks.dataset_shape import DatasetShape
from benchmarks.interleaved_rounds import PreparedDataset, log_progress
from benchmarks.json_records import read_record, write_record
from benchmarks.paths import CHECKOUT, DATA, pythonpath_variable
from benchmarks.published_parent import code_digest, publish_parent
from benchmarks.spark_sessions import job_session

SMALL = DatasetShape(130_000)


def prepared_dataset(shape: DatasetShape) -> PreparedDataset:
    """The data set of a shape, which `prepare_all` must have prepared. Raises FileNotFoundError if it has not."""
    folder = DATA / shape.name
    dataset: Dataset = read_record(Dataset, folder / "generated.json")
    return PreparedDataset(folder / "input_files.json", dataset)


def prepare_all(shapes: Sequence[DatasetShape], log: Callable[[str], None]) -> None:
    """Prepare the data sets that are missing, and those whose parent was published by another version of the job."""
    missing = [shape for shape in dict.fromkeys(shapes) if not _is_current(DATA / shape.name / "input_files.json")]
    if not missing:
        return
    log(f"preparing {len(missing)} data sets below {DATA}")
    environment = {**os.environ, "PYTHONPATH": pythonpath_variable()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shapes.json"
        write_record(path, missing)
        command = [sys.executable, "-m", "benchmarks.prepared_datasets", str(path)]
        subprocess.run(command, cwd=CHECKOUT, env=environment, check=True)


def _is_current(record: Path) -> bool:
    try:
        return bool(json.loads(record.read_text()).get("code") == code_digest())
    except FileNotFoundError:
        return False


def main(path: str) -> None:
    """Prepare data sets. `path`: the path of a JSON file with their shapes."""
    shapes: tuple[DatasetShape, ...] = read_record(tuple[DatasetShape, ...], Path(path))
    # All files are generated first, so that the processes that generate them do not run beside Spark.
    datasets = [generate(shape, DATA / shape.name, log_progress) for shape in shapes]
    session = job_session()
    for shape, dataset in zip(shapes, datasets, strict=True):
        publish_parent(shape, table_contract(shape), DATA / shape.name, dataset.rows, session=session)
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
