"""Makes data sets and publishes their states once, and stores both in `.local/benchmarks/data` for later runs.

`python -m benchmarks.prepared_datasets SHAPES.json` does so in a separate process with its own Spark session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.dataset import Dataset, make, table_of
from benchmarks.dataset_shape import DatasetShape
from benchmarks.interleaved_rounds import PreparedDataset
from benchmarks.json_records import read_record, write_record
from benchmarks.paths import CHECKOUT, DATA, pythonpath_variable
from benchmarks.published_state import code_digest, prepare

SMALL = DatasetShape(130_000)


def prepared_dataset(shape: DatasetShape) -> PreparedDataset:
    """The data set of a shape. `prepare_all` must have made it."""
    folder = DATA / shape.name
    dataset: Dataset = read_record(Dataset, folder / "dataset.json")
    return PreparedDataset(folder / "inputs.json", dataset)


def prepare_all(shapes: Sequence[DatasetShape], log: Callable[[str], None]) -> None:
    """Make the missing data sets, and publish their states again when the job's code has changed."""
    missing = [shape for shape in dict.fromkeys(shapes) if not _is_current(DATA / shape.name / "inputs.json")]
    if not missing:
        return
    log(f"making {len(missing)} data sets or their states below {DATA}")
    environment = {**os.environ, "PYTHONPATH": pythonpath_variable()}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "shapes.json"
        write_record(path, [asdict(shape) for shape in missing])
        command = [sys.executable, "-m", "benchmarks.prepared_datasets", str(path)]
        subprocess.run(command, cwd=CHECKOUT, env=environment, check=True)


def _is_current(record: Path) -> bool:
    try:
        return bool(json.loads(record.read_text()).get("code") == code_digest())
    except FileNotFoundError:
        return False


def main(path: str) -> None:
    shapes: tuple[DatasetShape, ...] = read_record(tuple[DatasetShape, ...], Path(path))
    for shape in shapes:
        folder = DATA / shape.name
        dataset = make(shape, folder, lambda text: print(text, file=sys.stderr, flush=True))
        prepare(shape, table_of(shape), folder, dataset.rows)


if __name__ == "__main__":
    main(sys.argv[1])
