"""Data sets with their published states, made once and kept below `.local/benchmarks/data`.

`python -m benchmarks.material SHAPE.json …` makes them in a process of its own, whose Spark session ends with it.
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

from benchmarks.area import code_digest, prepare
from benchmarks.dataset import Dataset, make, table_of
from benchmarks.layout import CHECKOUT, DATA, python_path
from benchmarks.records import read_record, write_record
from benchmarks.rounds import Material
from benchmarks.shape import Shape

SMALL = Shape(130_000)


def material(shape: Shape) -> Material:
    """What `make_all` has made."""
    folder = DATA / shape.name
    dataset: Dataset = read_record(Dataset, folder / "dataset.json")
    return Material(folder / "inputs.json", dataset)


def make_all(shapes: Sequence[Shape], say: Callable[[str], None]) -> None:
    """Files that are there are kept; states too, unless the job's code has changed since they were published."""
    missing = [shape for shape in dict.fromkeys(shapes) if not _is_current(DATA / shape.name / "inputs.json")]
    if not missing:
        return
    say(f"making {len(missing)} data sets, or their states, below {DATA}")
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "shapes.json"
        write_record(path, [asdict(shape) for shape in missing])
        command = [sys.executable, "-m", "benchmarks.material", str(path)]
        subprocess.run(command, cwd=CHECKOUT, env=environment, check=True)


def _is_current(record: Path) -> bool:
    try:
        return bool(json.loads(record.read_text()).get("code") == code_digest())
    except FileNotFoundError:
        return False


def main(path: str) -> None:
    shapes: tuple[Shape, ...] = read_record(tuple[Shape, ...], Path(path))
    for shape in shapes:
        folder = DATA / shape.name
        dataset = make(shape, folder, lambda text: print(text, file=sys.stderr, flush=True))
        prepare(shape, table_of(shape), folder, dataset.rows)


if __name__ == "__main__":
    main(sys.argv[1])
