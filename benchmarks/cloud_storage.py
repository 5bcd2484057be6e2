"""The job's `gs://` path beside its file path: the same files in an emulated Cloud Storage on this machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.area import prepare
from benchmarks.dataset import table_of
from benchmarks.document import table
from benchmarks.layout import DATA, WORK
from benchmarks.material import SMALL, make_all, material
from benchmarks.peers.registry import OURS
from benchmarks.results import Results, cpu, figure, save, wall
from benchmarks.rounds import Material, Plan, Rounds
from benchmarks.say import say
from benchmarks.shape import Shape
from dedup_spark import storage
from dedup_spark.storage import cloud
from tests.spark.feed_area import FEED
from tests.spark.gcs import fake_gcs

COMMAND = "storage"
ROWS = 6_500_000
_ROUNDS, _REPEATS = 1, 5
_HOST = "STORAGE_EMULATOR_HOST"
_FILES, _OBJECTS = "files", "objects"


def run(rows: int) -> Results:
    shape = Shape(rows)
    make_all([SMALL, shape], say)
    local = material(shape)
    found = []
    with emulated_storage() as host:
        objects = _upload(shape, local, host)
        rounds = Rounds(material(SMALL).inputs, say, ((_HOST, host),))
        for place, measured in ((_FILES, local), (_OBJECTS, objects)):
            runs = rounds.run([Plan(OURS, (measured,), _ROUNDS, _REPEATS, rehearse=True)])
            made = [figure(run, local.dataset.rows, shape.dates) for run in runs]
            found += [replace(one, notes={**one.notes, "place": place}) for one in made]
    return save(COMMAND, found, rounds.failures, is_default_size=rows == ROWS)


@contextmanager
def emulated_storage() -> Iterator[str]:
    """Yields its address, which everything in this process uses until the end."""
    WORK.mkdir(parents=True, exist_ok=True)
    before = os.environ.get(_HOST)
    with (
        tempfile.TemporaryDirectory(dir=WORK) as folder,
        fake_gcs(Path(folder), "landing", "state", in_memory=False) as host,
    ):
        os.environ[_HOST] = host
        cloud.forget_clients()
        try:
            yield host
        finally:
            os.environ.pop(_HOST)
            if before:
                os.environ[_HOST] = before
            cloud.forget_clients()


def _upload(shape: Shape, local: Material, host: str) -> Material:
    """The landed files as objects, and the state published among them."""
    landing = DATA / shape.name / "landing"
    for path in sorted((landing / FEED).rglob("*.parquet")):
        with storage.open_output(f"gs://landing/{path.relative_to(landing)}") as stream:
            stream.write(path.read_bytes())
    folder = WORK / "objects" / shape.name
    folder.mkdir(parents=True, exist_ok=True)
    prepare(shape, table_of(shape), folder, local.dataset.rows, host)
    return Material(folder / "inputs-storage.json", local.dataset)


def report(results: Results) -> str:
    lines = []
    for place, title in ((_FILES, "files of this machine"), (_OBJECTS, "`gs://`, fake-gcs-server on this machine")):
        mine = [one for one in results.figures if one.notes["place"] == place]
        lines.append(
            [
                title,
                f"{mine[0].rows:,}",
                str(len(mine)),
                f"{wall(mine):.2f}",
                f"{cpu(mine):.1f}",
                mine[0].notes["phases"],
            ]
        )
    heads = ["adopt, carried", "rows a side", "runs", "wall s, median", "CPU s", "phases of the first, s"]
    return f"{table(heads, lines)}\n\n{results.made_at} UTC, {results.machine}."
