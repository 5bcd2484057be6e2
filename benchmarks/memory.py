"""Measures the job on one large date: peak memory of a Python worker, and use of the cores (sub-command `memory`).

By default the date has 6 to 100 million rows in the parent and about as many in the snapshot.
"""

from __future__ import annotations

from benchmarks.dataset_shape import DatasetShape
from benchmarks.docs_tables import table
from benchmarks.interleaved_rounds import InterleavedRounds, PeerPlan, log_progress
from benchmarks.peers.registry import ADOPT, ADOPT_COMPUTED_ONE_CORE, ADOPT_ONE_CORE
from benchmarks.prepared_datasets import SMALL, prepare_all, prepared_dataset
from benchmarks.results import Results, figure, save
from dedup_spark.fingerprints.buckets import bits_for

COMMAND = "memory"
ROWS = 100_000_000
# Plan `adopt` on one core with the parent's stored fingerprints, on one core without these, and on all cores.
_STORED, _COMPUTED, _ALL_CORES = ADOPT_ONE_CORE, ADOPT_COMPUTED_ONE_CORE, ADOPT
_TITLES = {
    _STORED: "fingerprints stored, one core",
    _COMPUTED: "fingerprints computed, one core",
    _ALL_CORES: "huge date, fingerprints stored, two cores",
}
# A large date of a table of 15 TB and 730 dates, which has 428 million rows per date on average. Its memory is
# extrapolated, not measured.
LARGE_DATE_ROWS = 470_000_000
MIB = 2**20


def shapes(rows: int) -> list[DatasetShape]:
    """The shapes of data sets of one date, in ascending size. The largest has `rows` rows."""
    return [DatasetShape(rows // part, 1) for part in (16, 4, 1)]


def _shapes_of(peer: str, all_shapes: list[DatasetShape]) -> list[DatasetShape]:
    """The shapes on which a peer is measured: all, the smallest and the largest, or only the largest."""
    return {_STORED: all_shapes, _COMPUTED: [all_shapes[0], all_shapes[-1]], _ALL_CORES: all_shapes[-1:]}[peer]


def run(rows: int) -> Results:
    """Measure each size in a process of its own, so that the memory of an earlier size is not counted."""
    all_shapes = shapes(rows)
    prepare_all([SMALL, *all_shapes], log_progress)
    plans = [
        PeerPlan(peer, (prepared_dataset(shape),), rounds=1, repeats=1, warm_up=False)
        for peer in _TITLES
        for shape in _shapes_of(peer, all_shapes)
    ]
    rounds = InterleavedRounds(prepared_dataset(SMALL).inputs, log_progress)
    runs = rounds.run(plans)
    rows_by_name = {shape.name: prepared_dataset(shape).dataset.rows for shape in all_shapes}
    figures = [figure(run, rows_by_name[run.inputs], 1) for run in runs]
    return save(COMMAND, figures, rounds.failures, is_default_size=rows == ROWS)


def report(results: Results, rows: int = ROWS) -> str:
    """The table in Markdown. `rows`: the number of rows of the largest snapshot."""
    lines = []
    for peer, title in _TITLES.items():
        for shape in _shapes_of(peer, shapes(rows)):
            figures = results.of(peer, shape.name)[0]
            lines.append(
                [
                    title,
                    f"{figures.rows:,}",
                    f"{figures.worker_bytes / MIB:.0f}",
                    f"{figures.driver_bytes / MIB:.0f}",
                    f"{figures.wall_s:.1f}",
                    f"{figures.cpu_s:.1f}",
                    f"{figures.cpu_s / figures.wall_s:.2f}",
                    figures.notes["plans"],
                ]
            )
        if peer != _ALL_CORES:
            lines.append([f"{title}, modelled", f"{LARGE_DATE_ROWS:,}", f"{large_date_mib(results, peer):.0f}"])
    heads = ["one date", "rows per input", "worker MiB", "driver MiB", "wall s", "CPU s", "CPU s / wall s", "plan"]
    padded = [[*line, *[""] * (len(heads) - len(line))] for line in lines]
    return f"{table(heads, padded)}\n\n{results.made_at} UTC, {results.machine}."


def large_date_mib(results: Results, peer: str) -> float:
    """The worker's memory, in MiB, for a date of LARGE_DATE_ROWS rows.

    It is extrapolated from the two largest measured dates, as a linear function of their number of buckets.
    """
    points = sorted((_buckets(one.rows), one.worker_bytes / MIB) for one in results.of(peer))
    (few_buckets, few_mib), (many_buckets, many_mib) = points[-2:]
    slope = max(0.0, (many_mib - few_mib) / (many_buckets - few_buckets))
    return many_mib + slope * (_buckets(LARGE_DATE_ROWS) - many_buckets)


def _buckets(rows: int) -> int:
    """The number of fingerprint buckets that the job uses for `rows` rows."""
    return 1 << bits_for(rows, DatasetShape(rows, 1).differing)
