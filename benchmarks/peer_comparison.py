"""Measures the job's plans and all other peers on the same files, in interleaved rounds (sub-command `main`)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.dataset_shape import DatasetShape, Variant
from benchmarks.docs_tables import table
from benchmarks.interleaved_rounds import InterleavedRounds, PeerSchedule, log_progress
from benchmarks.peers.registry import ADOPT, ENTRIES, NOT_IN_PEER_COMPARISON, READ_BOTH, ROW_NUMBER
from benchmarks.prepared_datasets import SMALL, prepare_all, prepared_dataset
from benchmarks.results import Results, RunFigures, cpu, median, run_figures, save, wall

COMMAND = "main"
ROWS = 26_000_000
_MIN_REPEATS_TO_WARM_UP = 2
_PLAIN_JOINS = ("spark-sort-merge", "spark-shuffled-hash")
# Pairs of a peer with DuckDB and a peer with the job, and the condition under which both do the same work.
_DUCKDB_PAIRS = (
    ("duckdb-like-for-like", ADOPT, "for all that adopt does"),
    ("duckdb-survivors", ADOPT, "if it only finds and writes the survivors"),
    ("duckdb-survivors", "adopt-keys", "with `compare_values: false`, if it only finds and writes the survivors"),
)


def peers() -> list[str]:
    """The names of the peers that this sub-command compares by default, in the order in which they run."""
    return [name for name in ENTRIES if name not in NOT_IN_PEER_COMPARISON]


def run(rows: int, variant: Variant, only: Sequence[str], rounds: int | None) -> Results:
    """Measure the peers named in `only`, or the default peers if it is empty, and store the results.

    `rows`: the number of rows in the snapshot. `rounds`: their number for each peer; None for the peer's default.
    """
    shape = DatasetShape(rows, variant=variant)
    prepare_all([SMALL, shape], log_progress)
    names = list(only) or peers()
    schedules = [
        PeerSchedule(
            name,
            (prepared_dataset(shape),),
            rounds or ENTRIES[name].rounds,
            ENTRIES[name].repeats,
            warm_up=ENTRIES[name].repeats >= _MIN_REPEATS_TO_WARM_UP,
        )
        for name in names
    ]
    interleaved = InterleavedRounds(prepared_dataset(SMALL).inputs_path, log_progress)
    runs = interleaved.run(schedules)
    figures = [run_figures(run, prepared_dataset(shape).dataset.rows, shape.dates) for run in runs]
    is_default_size = rows == ROWS and variant is Variant.UNIFORM and not only
    return save(COMMAND, figures, interleaved.failures, is_default_size=is_default_size)


def report(results: Results) -> str:
    """The table in Markdown, with the fastest peer first."""
    by_peer = {name: results.figures_of(name) for name in ENTRIES if results.figures_of(name)}
    row_number = by_peer.get(ROW_NUMBER)
    lines = [
        _table_line(name, figures, row_number)
        for name, figures in sorted(by_peer.items(), key=lambda item: wall(item[1]))
    ]
    heads = [
        "", "runs", "wall s, median", "wall s, range", "CPU s", "CPU ns per row", "bytes read per row", "shuffled MB",
        "written MB", "JVM GB", "Python GB", "foreign cores", "times as fast as ROW_NUMBER",
    ]  # fmt: skip
    first = results.figures[0]
    sizes = f"{first.rows:,} rows in the snapshot, about as many in the parent, {first.dates} dates."
    introduction = f"{sizes} All made the same table."
    missing = [f"No figures of {ENTRIES[peer].title}: {why.splitlines()[0]}" for peer, why in results.failures.items()]
    parts = [
        introduction,
        table(heads, lines),
        *missing,
        *_summary(by_peer),
        f"{results.made_at} UTC, {results.machine}.",
    ]
    return "\n\n".join(parts)


def _summary(by_peer: dict[str, list[RunFigures]]) -> list[str]:
    """Sentences that compare plan `adopt` with other peers; none if one of the main peers was not measured."""
    joins = [by_peer[name] for name in _PLAIN_JOINS if name in by_peer]
    if not joins or not {ADOPT, ROW_NUMBER, READ_BOTH} <= by_peer.keys():
        return []
    adopt, row_number = wall(by_peer[ADOPT]), wall(by_peer[ROW_NUMBER])
    duckdb = [
        f"DuckDB takes {wall(by_peer[peer]) / wall(by_peer[job]):.2f} times as long as adopt {condition}."
        for peer, job, condition in _DUCKDB_PAIRS
        if peer in by_peer and job in by_peer
    ]
    return [
        f"Adopt with stored fingerprints is {row_number / adopt:.1f} times as fast as Spark's ROW_NUMBER, "
        f"{min(map(wall, joins)) / adopt:.1f} times as fast as the fastest plain Spark join, and takes "
        f"{adopt / wall(by_peer[READ_BOTH]):.2f} times as long as pyarrow reading all columns of both inputs.",
        " ".join(duckdb),
    ]


def _table_line(name: str, figures: list[RunFigures], row_number: list[RunFigures] | None) -> list[str]:
    walls = [measured.wall_s for measured in figures]
    rows_read = 2 * figures[0].rows  # the parent has about as many rows as the snapshot
    read_bytes = figures[0].read_bytes
    return [
        ENTRIES[name].title,
        str(len(figures)),
        f"{wall(figures):.2f}",
        f"{min(walls):.2f} to {max(walls):.2f}",
        f"{cpu(figures):.1f}",
        f"{cpu(figures) / rows_read * 1e9:.0f}",
        f"{read_bytes / rows_read:.2f}" if read_bytes is not None else "",
        f"{median(figures, lambda measured: measured.shuffled_bytes or 0) / 1e6:.0f}",
        f"{median(figures, lambda measured: measured.written_bytes) / 1e6:.1f}",
        f"{median(figures, lambda measured: measured.jvm_bytes) / 1e9:.1f}",
        f"{median(figures, lambda measured: measured.python_bytes) / 1e9:.2f}",
        f"{max(measured.foreign_cores for measured in figures):.1f}",
        f"{wall(row_number) / wall(figures):.1f}" if row_number else "",
    ]
