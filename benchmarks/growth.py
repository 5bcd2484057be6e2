"""How the job grows: with rows, with dates, with the share of differing rows, with text keys, with old survivors.

One process runs the job on all data sets in turns, warm, so that neighbours in a table were measured side by side.
"""

from __future__ import annotations

from benchmarks.document import table
from benchmarks.material import SMALL, make_all, material
from benchmarks.peers.registry import BASE, ENTRIES, FLOOR, GENERAL, OURS
from benchmarks.results import Figure, Results, cpu, figure, save, wall
from benchmarks.rounds import Plan, Rounds
from benchmarks.say import say
from benchmarks.shape import Shape, Variant

COMMAND = "growth"
ROWS = 26_000_000
_ROUNDS, _REPEATS = 1, 3


def by_rows(rows: int) -> list[Shape]:
    """x1, x2 and x4; `rows` are those of x4, where the main table has ROW_NUMBER."""
    return [Shape(rows // 4), Shape(rows // 2), Shape(rows)]


def by_dates(rows: int) -> list[Shape]:
    return [Shape(rows, dates) for dates in (13, 52, 208, 730)]


def by_differences(rows: int) -> list[Shape]:
    return [Shape(rows // 4, differing=share) for share in (0.0, 0.001, 0.01, 0.1, 1.0)]


def by_keys(rows: int) -> list[Shape]:
    return [Shape(rows // 4), Shape(rows // 4, string_keys=True)]


def by_survivors(rows: int) -> list[Shape]:
    return [Shape(rows // 4), Shape(rows // 4, kept=0.05)]


def by_variants(rows: int) -> list[Shape]:
    """Small, for some of them need a general plan."""
    return [Shape(rows // 20, variant=variant) for variant in Variant]


def for_plans(rows: int) -> Shape:
    """Where the general plans and ROW_NUMBER stand side by side."""
    return Shape(rows // 20)


def all_shapes(rows: int) -> list[Shape]:
    """Of every part, each once."""
    parts = (by_rows, by_dates, by_differences, by_keys, by_survivors, by_variants)
    return list(dict.fromkeys(shape for part in parts for shape in part(rows)))


def run(rows: int) -> Results:
    shapes = all_shapes(rows)
    make_all([SMALL, *shapes], say)
    floors = list(dict.fromkeys([*by_rows(rows), *by_dates(rows)]))
    plans = [
        Plan(OURS, tuple(map(material, shapes)), _ROUNDS, _REPEATS, rehearse=True),
        Plan(FLOOR, tuple(map(material, floors)), 1, _REPEATS, rehearse=True),
        Plan(BASE, tuple(map(material, [*by_rows(rows)[:-1], for_plans(rows)])), 1, 1, rehearse=False),
        *(Plan(name, (material(for_plans(rows)),), 1, 2, rehearse=True) for name in GENERAL),
    ]
    rounds = Rounds(material(SMALL).inputs, say)
    runs = rounds.run(plans)
    known = {shape.name: shape for shape in shapes}
    found = [figure(run, material(known[run.inputs]).dataset.rows, known[run.inputs].dates) for run in runs]
    return save(COMMAND, found, rounds.failures, is_default_size=rows == ROWS)


def report(results: Results, rows: int = ROWS) -> str:
    def ours(shape: Shape) -> list[Figure]:
        return results.of(OURS, shape.name)

    def line(title: str, shape: Shape, first: Shape) -> list[str]:
        mine, floor, base = ours(shape), results.of(FLOOR, shape.name), results.of(BASE, shape.name)
        growth = (wall(mine) / mine[0].rows) / (wall(ours(first)) / ours(first)[0].rows)
        return [
            title,
            f"{mine[0].rows:,}",
            str(shape.dates),
            f"{wall(mine):.2f}",
            f"{cpu(mine):.1f}",
            f"{wall(mine) / mine[0].rows * 1e9:.0f}",
            f"{growth:.2f}",
            f"{wall(floor):.2f}" if floor else "",
            f"{wall(base):.1f}" if base else "",
            f"{wall(base) / wall(mine):.1f}" if base else "",
            mine[0].notes["plans"],
        ]

    parts = {
        "rows": (by_rows(rows), ("x1", "x2", "x4")),
        "dates": (by_dates(rows), ("13 dates", "52", "208", "730")),
        "differing rows": (by_differences(rows), ("0", "0.1 %", "1 %", "10 %", "100 %")),
        "keys": (by_keys(rows), ("integers", "one of them text")),
        "survivors": (by_survivors(rows), ("0.05 % of the state", "5 %")),
        "variants": (by_variants(rows), tuple(Variant)),
    }
    lines = [
        line(f"{part}: {title}", shape, shapes[0])
        for part, (shapes, titles) in parts.items()
        for title, shape in zip(titles, shapes, strict=True)
    ]
    heads = [
        "adopt, carried", "rows a side", "dates", "wall s, median", "CPU s", "wall ns a row", "times the part's first",
        "pyarrow reads both, s", "ROW_NUMBER, s", "times quicker", "plans of the dates",
    ]  # fmt: skip
    return f"{table(heads, lines)}\n\n{_plans(results, rows)}\n\n{results.made_at} UTC, {results.machine}."


def _plans(results: Results, rows: int) -> str:
    """The plans for everything else, beside ROW_NUMBER."""
    shape = for_plans(rows)
    measured = {name: results.of(name, shape.name) for name in (OURS, *GENERAL, BASE)}
    lines = [
        [ENTRIES[name].title, f"{found[0].rows:,}", f"{wall(found):.2f}", f"{cpu(found):.1f}"]
        for name, found in measured.items()
        if found
    ]
    return table(["on few rows", "rows a side", "wall s, median", "CPU s"], lines)
