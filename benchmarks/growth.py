"""Measures how the job's time grows with rows, dates, differing rows, deliveries, string keys and survivors.

This is the sub-command `growth`. One warm process runs the job on all data sets in turn, so that their figures can be
compared.
"""

from __future__ import annotations

from benchmarks.dataset_shape import DatasetShape, Variant
from benchmarks.docs_tables import table
from benchmarks.interleaved_rounds import InterleavedRounds, PeerSchedule, log_progress
from benchmarks.peers.registry import ADOPT, DATAFRAME_PLANS, ENTRIES, READ_BOTH, ROW_NUMBER
from benchmarks.prepared_datasets import SMALL, prepare_all, prepared_dataset
from benchmarks.results import Results, RunFigures, cpu, run_figures, save, wall

COMMAND = "growth"
ROWS = 26_000_000
_ROUNDS, _REPEATS = 1, 3
_GROWTH_HEAD = "time per row / that of the part's first line"
_DELIVERIES = (Variant.BACKLOG_2, Variant.BACKLOG_6, Variant.CORRECTION, Variant.LATE)


def shapes_by_rows(rows: int) -> list[DatasetShape]:
    """Shapes with a quarter, a half and all of `rows` rows."""
    return [DatasetShape(rows // 4), DatasetShape(rows // 2), DatasetShape(rows)]


def shapes_by_dates(rows: int) -> list[DatasetShape]:
    return [DatasetShape(rows, dates) for dates in (13, 208, 730)]


def shapes_by_differences(rows: int) -> list[DatasetShape]:
    return [DatasetShape(rows // 4, differing=share) for share in (0.001, 0.003, 0.01, 0.03, 0.1)]


def shapes_by_deliveries(rows: int) -> list[DatasetShape]:
    """Shapes with one delivery in order, two backlogs, a correction, and a late snapshot."""
    return [DatasetShape(rows // 4), *(DatasetShape(rows // 4, variant=variant) for variant in _DELIVERIES)]


def shapes_by_keys(rows: int) -> list[DatasetShape]:
    return [DatasetShape(rows // 4), DatasetShape(rows // 4, string_keys=True)]


def shapes_by_survivors(rows: int) -> list[DatasetShape]:
    return [DatasetShape(rows // 4), DatasetShape(rows // 4, survivor_share=0.05)]


def shapes_by_variants(rows: int) -> list[DatasetShape]:
    """Variant UNIFORM, and each variant that `shapes_by_deliveries` lacks, on few rows because some take long."""
    return [DatasetShape(rows // 20, variant=variant) for variant in Variant if variant not in _DELIVERIES]


def shape_for_plans(rows: int) -> DatasetShape:
    """The shape on which plan `adopt`, the DataFrame plans and ROW_NUMBER are compared."""
    return DatasetShape(rows // 20)


def all_shapes(rows: int) -> list[DatasetShape]:
    """The shapes of all parts of the report, each once."""
    parts = (
        shapes_by_rows,
        shapes_by_dates,
        shapes_by_differences,
        shapes_by_deliveries,
        shapes_by_keys,
        shapes_by_survivors,
        shapes_by_variants,
    )
    return list(dict.fromkeys(shape for part in parts for shape in part(rows)))


def run(rows: int) -> Results:
    """Measure on data sets of at most `rows` rows in a snapshot, and store the results."""
    shapes = all_shapes(rows)
    prepare_all([SMALL, *shapes], log_progress)
    row_number_shapes = [shapes_by_rows(rows)[0], shape_for_plans(rows)]
    read_shapes = list(dict.fromkeys([*shapes_by_rows(rows), *shapes_by_dates(rows)]))
    schedules = [
        PeerSchedule(ADOPT, tuple(map(prepared_dataset, shapes)), _ROUNDS, _REPEATS, warm_up=True),
        PeerSchedule(READ_BOTH, tuple(map(prepared_dataset, read_shapes)), 1, _REPEATS, warm_up=True),
        PeerSchedule(ROW_NUMBER, tuple(map(prepared_dataset, row_number_shapes)), 1, 1, warm_up=False),
        *(
            PeerSchedule(name, (prepared_dataset(shape_for_plans(rows)),), 1, 2, warm_up=True)
            for name in DATAFRAME_PLANS
        ),
    ]
    rounds = InterleavedRounds(prepared_dataset(SMALL).inputs_path, log_progress)
    runs = rounds.run(schedules)
    shape_by_name = {shape.name: shape for shape in shapes}
    figures = []
    for run in runs:
        shape = shape_by_name[run.dataset_name]
        figures.append(run_figures(run, prepared_dataset(shape).dataset.rows, shape.dates))
    return save(COMMAND, figures, rounds.failures, is_default_size=rows == ROWS)


def report(results: Results, rows: int = ROWS) -> str:
    """The tables in Markdown. `rows`: the number of rows in the largest snapshot."""

    def adopt_on(shape: DatasetShape) -> list[RunFigures]:
        return results.figures_of(ADOPT, shape.name)

    def line(title: str, shape: DatasetShape, first: DatasetShape) -> list[str]:
        """The cells of one shape. `first`: the first shape of the same part, with which it is compared."""
        adopt, read_both, row_number = (results.figures_of(peer, shape.name) for peer in (ADOPT, READ_BOTH, ROW_NUMBER))
        growth = _per_row(adopt) / _per_row(adopt_on(first))
        plans = adopt[0].notes["plans"]
        return [
            title if plans.startswith("adopt") else f"{title} ({plans})",
            f"{adopt[0].rows:,}",
            str(shape.dates),
            f"{wall(adopt):.2f}",
            f"{cpu(adopt):.1f}",
            f"{wall(adopt) / adopt[0].rows * 1e9:.0f}",
            f"{growth:.2f}",
            f"{wall(read_both):.2f}" if read_both else "",
            f"{_per_row(read_both) / _per_row(results.figures_of(READ_BOTH, first.name)):.2f}" if read_both else "",
            f"{wall(row_number):.1f}" if row_number else "",
            f"{wall(row_number) / wall(adopt):.1f}" if row_number else "",
        ]

    parts = {
        "rows": (shapes_by_rows(rows), ("x1", "x2", "x4")),
        "dates": (shapes_by_dates(rows), ("13 dates", "208", "730")),
        "differing rows": (shapes_by_differences(rows), ("0.1 % (x1)", "x3", "x10", "x30", "x100")),
        "deliveries": (
            shapes_by_deliveries(rows),
            ("one", "backlog of 2", "backlog of 6", "correction", "late snapshot"),
        ),
        "keys": (shapes_by_keys(rows), ("integers", "one of them text")),
        "survivors": (shapes_by_survivors(rows), ("0.05 % of the parent", "5 %")),
        "variants": (shapes_by_variants(rows), [shape.variant for shape in shapes_by_variants(rows)]),
    }
    lines = [
        line(f"{part}: {title}", shape, shapes[0])
        for part, (shapes, titles) in parts.items()
        for title, shape in zip(titles, shapes, strict=True)
    ]
    heads = [
        "adopt, stored fingerprints", "rows per input", "dates", "wall s, median", "CPU s", "wall ns per row",
        _GROWTH_HEAD, "pyarrow reads both, s", _GROWTH_HEAD, "ROW_NUMBER, s",
        "times as fast as ROW_NUMBER",
    ]  # fmt: skip
    return f"{table(heads, lines)}\n\n{_compare_plans(results, rows)}\n\n{results.made}"


def _per_row(figures: list[RunFigures]) -> float:
    """The median wall time in seconds per row of the newest delivery."""
    return wall(figures) / figures[0].rows


def _compare_plans(results: Results, rows: int) -> str:
    """A table that compares plan `adopt`, the DataFrame plans and ROW_NUMBER on the same few rows."""
    shape = shape_for_plans(rows)
    figures_by_peer = {name: results.figures_of(name, shape.name) for name in (ADOPT, *DATAFRAME_PLANS, ROW_NUMBER)}
    lines = [
        [ENTRIES[name].title, f"{figures[0].rows:,}", f"{wall(figures):.2f}", f"{cpu(figures):.1f}"]
        for name, figures in figures_by_peer.items()
        if figures
    ]
    return table(["on few rows", "rows per input", "wall s, median", "CPU s"], lines)
