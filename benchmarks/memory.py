"""Measures the job on one large date: peak memory of a Python worker, and use of the cores (sub-command `memory`).

By default the date has 6 to 100 million rows in the parent, and about as many in each arriving snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.dataset_shape import DatasetShape, Variant
from benchmarks.docs_tables import table
from benchmarks.generated_rows import snapshot_ids
from benchmarks.interleaved_rounds import InterleavedRounds, PeerSchedule, log_progress
from benchmarks.peers.registry import ADOPT, ADOPT_COMPUTED_ONE_CORE, ADOPT_ONE_CORE
from benchmarks.prepared_datasets import SMALL, prepare_all, prepared_dataset
from benchmarks.results import Results, run_figures, save
from dedup_spark.fingerprints.buckets import bits_for

COMMAND = "memory"
ROWS = 100_000_000
# With far fewer rows, the dates of both backlogs would have the minimum number of buckets, and no line could be fitted.
_MIN_ROWS = 100_000
# A large date of a table of 15 TB and 730 dates, which has 428 million rows per date on average. Its memory is
# extrapolated, not measured.
LARGE_DATE_ROWS = 470_000_000
MIB = 2**20


@dataclass(frozen=True)
class Part:
    """Some lines of the table: one for each of `shapes`, on which `peer` ran.

    `is_modelled`: whether one more line extrapolates their memory to LARGE_DATE_ROWS rows.
    """

    title: str
    peer: str
    shapes: list[DatasetShape]
    is_modelled: bool = True


def parts(rows: int) -> list[Part]:
    """The parts of the table. The largest data set has `rows` rows; every data set has one date."""
    small, medium, large = (DatasetShape(rows // divisor, 1) for divisor in (16, 4, 1))
    backlogs = [DatasetShape(rows // divisor, 1, Variant.BACKLOG_6) for divisor in (4, 1)]
    return [
        Part("fingerprints stored, one core", ADOPT_ONE_CORE, [small, medium, large]),
        Part("fingerprints computed, one core", ADOPT_COMPUTED_ONE_CORE, [small, large]),
        Part("backlog of 6, fingerprints stored, one core", ADOPT_ONE_CORE, backlogs),
        Part("huge date, fingerprints stored, two cores", ADOPT, [large], is_modelled=False),
    ]


def run(rows: int) -> Results:
    """Measure each size in a process of its own, so that the memory of an earlier size is not counted.

    Raises SystemExit if `rows` are too few for the modelled lines of the table.
    """
    if rows < _MIN_ROWS:
        raise SystemExit(f"`memory` got --rows [{rows}], expected at least [{_MIN_ROWS}].")
    all_shapes = list(dict.fromkeys(shape for part in parts(rows) for shape in part.shapes))
    prepare_all([SMALL, *all_shapes], log_progress)
    schedules = [
        PeerSchedule(part.peer, (prepared_dataset(shape),), rounds=1, repeats=1, warm_up=False)
        for part in parts(rows)
        for shape in part.shapes
    ]
    rounds = InterleavedRounds(prepared_dataset(SMALL).inputs_path, log_progress)
    runs = rounds.run(schedules)
    rows_by_name = {shape.name: prepared_dataset(shape).dataset.rows for shape in all_shapes}
    figures = [run_figures(run, rows_by_name[run.dataset_name], 1) for run in runs]
    return save(COMMAND, figures, rounds.failures, is_default_size=rows == ROWS)


def report(results: Results, rows: int = ROWS) -> str:
    """The table in Markdown. `rows`: the number of rows of the largest snapshot."""
    lines = []
    for part in parts(rows):
        for shape in part.shapes:
            measured = results.figures_of(part.peer, shape.name)[0]
            lines.append(
                [
                    part.title,
                    f"{measured.rows:,}",
                    f"{_mib(measured.worker_bytes):.0f}",
                    f"{_mib(measured.driver_bytes):.0f}",
                    f"{measured.wall_s:.1f}",
                    f"{measured.cpu_s:.1f}",
                    f"{measured.cpu_s / measured.wall_s:.2f}",
                    measured.notes["plans"],
                ]
            )
        if part.is_modelled:
            lines.append([f"{part.title}, modelled", f"{LARGE_DATE_ROWS:,}", f"{large_date_mib(results, part):.0f}"])
    heads = ["one date", "rows per input", "worker MiB", "driver MiB", "wall s", "CPU s", "CPU s / wall s", "plan"]
    padded = [[*line, *[""] * (len(heads) - len(line))] for line in lines]
    return f"{table(heads, padded)}\n\n{results.made}"


def large_date_mib(results: Results, part: Part) -> float:
    """The worker's memory, in MiB, for a date of LARGE_DATE_ROWS rows.

    It is extrapolated from the two largest measured dates of the part, as a linear function of their number of buckets.
    """
    measured = [(shape, results.figures_of(part.peer, shape.name)[0]) for shape in part.shapes]
    points = sorted((_buckets(run.rows, shape), _mib(run.worker_bytes)) for shape, run in measured)
    (few_buckets, few_mib), (many_buckets, many_mib) = points[-2:]
    slope = max(0.0, (many_mib - few_mib) / (many_buckets - few_buckets))
    return many_mib + slope * (_buckets(LARGE_DATE_ROWS, part.shapes[-1]) - many_buckets)


def _mib(size: int | None) -> float:
    assert size is not None  # only cold runs of sub-command `fixed-cost` lack it
    return size / MIB


def _buckets(rows: int, shape: DatasetShape) -> int:
    """The number of fingerprint buckets that the job uses for `rows` rows, with the deliveries of the shape."""
    # The None is the expected share of differing rows. The job takes it from the parent's publish, but in that publish
    # nearly all keys were new, so there is no estimate.
    return 1 << bits_for(rows, None, len(snapshot_ids(shape)) - 1)
