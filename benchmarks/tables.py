"""The measurements of each sub-command, as a table in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from benchmarks.dataset import DatasetShape, Variant
from benchmarks.peers import ADOPT, ADOPT_ONE_CORE, COMPARED, ENTRIES, READ_BOTH, ROW_NUMBER, WINDOW
from benchmarks.prepare import SMALL, prepare_all, prepared
from benchmarks.rounds import MeasuredRun, Schedule, run_rounds

MIB = 2**20
Table = tuple[str, dict[str, str]]  # its text, and for each peer that failed the reason


def compare(rows: int, variant: Variant, only: Sequence[str], rounds: int | None) -> Table:
    """Compare peers on the same files, in interleaved rounds.

    `rows`: the number of rows in the snapshot. `only`: names of peers; empty for all. `rounds`: their number for each
    peer; None for the peer's default.
    """
    shape, names = DatasetShape(rows, variant=variant), list(only) or COMPARED
    runs, failures = _measure([Schedule(n, (shape,), rounds or ENTRIES[n].rounds, ENTRIES[n].repeats) for n in names])
    slowest = _wall(_of(runs, ROW_NUMBER)) if _of(runs, ROW_NUMBER) else None
    lines = []
    for name in sorted({run.peer for run in runs}, key=lambda name: _wall(_of(runs, name))):
        measured = _of(runs, name)
        walls, row_count = [run.usage.wall_s for run in measured], prepared(shape).rows
        lines.append(
            [
                ENTRIES[name].title,
                str(len(measured)),
                f"{_wall(measured):.2f}",
                f"{min(walls):.2f} to {max(walls):.2f}",
                f"{_cpu(measured) / (2 * row_count) * 1e9:.0f}",
                f"{_median(measured, lambda run: run.shuffled) / 1e6:.0f}",
                f"{_median(measured, lambda run: run.usage.jvm_bytes + run.usage.python_bytes) / 1e9:.2f}",
                f"{max(run.usage.foreign_cores for run in measured):.1f}",
                f"{slowest / _wall(measured):.1f}" if slowest else "",
            ]
        )
    heads = ["", "runs", "wall s, median", "range", "CPU ns a row", "shuffled MB", "memory GB", "foreign cores"]
    text = _table([*heads, "times as fast as ROW_NUMBER"], lines)
    return f"{prepared(shape).rows:,} rows in the snapshot, {shape.dates} dates.\n\n{text}", failures


def grow(rows: int) -> Table:
    """How the job's time grows with rows, dates, differing rows, deliveries, key types and survivors.

    One warm process runs the job on all data sets in turn. `rows`: the number of rows in the largest snapshot.
    """
    quarter = rows // 4
    base = DatasetShape(quarter)
    parts: dict[str, list[tuple[str, DatasetShape]]] = {
        "rows": [("x1", base), ("x2", DatasetShape(rows // 2)), ("x4", DatasetShape(rows))],
        "dates": [(str(dates), DatasetShape(rows, dates)) for dates in (13, 208, 730)],
        "differing rows": [(f"{s:.1%}", DatasetShape(quarter, differing=s)) for s in (0.001, 0.01, 0.1)],
        "deliveries": [
            ("one", base),
            *((str(kind), DatasetShape(quarter, variant=kind)) for kind in Variant if kind is not Variant.UNIFORM),
        ],
        "keys": [("integers", base), ("one of them text", DatasetShape(quarter, string_keys=True))],
        "survivors": [("0.05 %", base), ("5 %", DatasetShape(quarter, survivor_share=0.05))],
    }
    shapes = tuple(dict.fromkeys(shape for part in parts.values() for _, shape in part))
    few = (DatasetShape(rows // 20),)
    runs, failures = _measure(
        [
            Schedule(ADOPT, (*shapes, *few), 1, 3),
            Schedule(READ_BOTH, shapes, 1, 3),
            Schedule(WINDOW, few, 1, 2),
            Schedule(ROW_NUMBER, (base, *few), 1, 1),
        ]
    )
    lines = []
    for part, titled in {**parts, "few rows": [("", few[0])]}.items():
        first = _per_row(runs, titled[0][1])
        for title, shape in titled:
            others = [_of(runs, peer, shape) for peer in (READ_BOTH, WINDOW, ROW_NUMBER)]
            measured = _of(runs, ADOPT, shape)
            lines.append(
                [
                    f"{part}: {title} ({measured[0].result.plans})",
                    f"{prepared(shape).rows:,}",
                    f"{_wall(measured):.2f}",
                    f"{_cpu(measured):.1f}",
                    f"{_per_row(runs, shape) / first:.2f}",
                    *(f"{_wall(other):.2f}" if other else "" for other in others),
                ]
            )
    heads = ["adopt", "rows per input", "wall s", "CPU s", "time a row / that of the part's first line"]
    return _table([*heads, "reading both, s", "window, s", "ROW_NUMBER, s"], lines), failures


def memory(rows: int) -> Table:
    """Peak memory of a Python worker for one date, whose largest snapshot has `rows` rows, and use of the cores."""
    sizes = [DatasetShape(rows // divisor, 1) for divisor in (16, 4, 1)]
    backlogs = [DatasetShape(rows // divisor, 1, Variant.BACKLOG_6) for divisor in (4, 1)]
    # Each size has a process of its own, so that the memory of an earlier size is not counted.
    cases = [*((ADOPT_ONE_CORE, shape) for shape in (*sizes, *backlogs)), (ADOPT, sizes[-1])]
    runs, failures = _measure([Schedule(peer, (shape,), 1, 1) for peer, shape in cases])
    lines = [
        [
            f"{ENTRIES[run.peer].title}, {run.shape.variant}",
            f"{prepared(run.shape).rows:,}",
            f"{run.usage.worker_bytes / MIB:.0f}",
            f"{run.usage.driver_bytes / MIB:.0f}",
            f"{run.usage.wall_s:.1f}",
            f"{run.usage.cpu_s / run.usage.wall_s:.2f}",
            run.result.plans,
        ]
        for run in runs
    ]
    heads = ["one date", "rows per input", "worker MiB", "driver MiB", "wall s", "CPU s / wall s", "plan"]
    return _table(heads, lines), failures


def _measure(schedules: Sequence[Schedule]) -> tuple[list[MeasuredRun], dict[str, str]]:
    """Prepare the data sets, then run all peers."""
    prepare_all([SMALL, *(shape for schedule in schedules for shape in schedule.shapes)])
    return run_rounds(schedules)


def _of(runs: Iterable[MeasuredRun], peer: str, shape: DatasetShape | None = None) -> list[MeasuredRun]:
    """The runs of a peer, on all data sets or on one of them."""
    return [run for run in runs if run.peer == peer and shape in (None, run.shape)]


def _per_row(runs: Iterable[MeasuredRun], shape: DatasetShape) -> float:
    """The median wall time of `adopt` in seconds a row of the newest delivery."""
    return _wall(_of(runs, ADOPT, shape)) / prepared(shape).rows


def _median(runs: Iterable[MeasuredRun], value: Callable[[MeasuredRun], float]) -> float:
    return statistics.median([value(run) for run in runs])


def _wall(runs: Iterable[MeasuredRun]) -> float:
    """The median wall time in seconds."""
    return _median(runs, lambda run: run.usage.wall_s)


def _cpu(runs: Iterable[MeasuredRun]) -> float:
    """The median CPU time in seconds."""
    return _median(runs, lambda run: run.usage.cpu_s)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose first column is left-aligned, and all others right-aligned."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
