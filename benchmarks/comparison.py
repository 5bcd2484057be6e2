"""The main table: the job's plans beside every peer, on the same files, in interleaved rounds."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.document import table
from benchmarks.material import SMALL, make_all, material
from benchmarks.peers.registry import BASE, ENTRIES, FLOOR, GENERAL, OURS
from benchmarks.results import Figure, Results, cpu, figure, middle, save, wall
from benchmarks.rounds import Plan, Rounds
from benchmarks.say import say
from benchmarks.shape import Shape, Variant

COMMAND = "main"
ROWS = 26_000_000
_FEWEST_TO_REHEARSE = 2
_IN_TASKS = "-tasks"
_PLAIN_JOINS = ("spark-sort-merge", "spark-shuffled-hash")


def peers() -> list[str]:
    """All that belong into the table, in its order of running: slow and quick ones mixed as they are registered."""
    return [name for name in ENTRIES if not name.endswith(_IN_TASKS) and name not in GENERAL]


def run(rows: int, variant: Variant, only: Sequence[str], rounds: int | None) -> Results:
    """`only`: names of peers, all when empty. `rounds`: of each peer, its own number when None."""
    shape = Shape(rows, variant=variant)
    make_all([SMALL, shape], say)
    chosen = list(only) or peers()
    plans = [
        Plan(
            name,
            (material(shape),),
            rounds or ENTRIES[name].rounds,
            ENTRIES[name].repeats,
            rehearse=ENTRIES[name].repeats >= _FEWEST_TO_REHEARSE,
        )
        for name in chosen
    ]
    taken = Rounds(material(SMALL).inputs, say)
    runs = taken.run(plans)
    found = [figure(run, material(shape).dataset.rows, shape.dates) for run in runs]
    is_default_size = rows == ROWS and variant is Variant.UNIFORM and not only
    return save(COMMAND, found, taken.failures, is_default_size=is_default_size)


def report(results: Results) -> str:
    """The table, the quickest first."""
    by_peer = {name: results.of(name) for name in ENTRIES if results.of(name)}
    base, ours = by_peer.get(BASE), by_peer.get(OURS)
    lines = [
        _line(name, figures, base, ours) for name, figures in sorted(by_peer.items(), key=lambda item: wall(item[1]))
    ]
    heads = [
        "", "runs", "wall s, median", "least to most", "CPU s", "CPU ns a row", "bytes read a row", "shuffled MB",
        "written MB", "JVM GB", "Python GB", "foreign cores", "times quicker than ROW_NUMBER", "times adopt's wall",
    ]  # fmt: skip
    one = results.figures[0]
    head = f"{one.rows:,} rows in the snapshot and about as many in the state, {one.dates} dates. Every result equal."
    missing = [f"No figures of {ENTRIES[peer].title}: {why.splitlines()[0]}" for peer, why in results.failures.items()]
    parts = [head, table(heads, lines), *missing, *_in_words(by_peer), f"{results.made_at} UTC, {results.machine}."]
    return "\n\n".join(parts)


def _in_words(by_peer: dict[str, list[Figure]]) -> list[str]:
    """How the job compares with what it is measured by; nothing when one of these is missing."""
    joins = [by_peer[name] for name in _PLAIN_JOINS if name in by_peer]
    if not joins or not {OURS, BASE, FLOOR} <= by_peer.keys():
        return []
    ours = wall(by_peer[OURS])
    return [
        f"Adopt with carried fingerprints is {wall(by_peer[BASE]) / ours:.1f} times quicker than Spark's ROW_NUMBER, "
        f"{min(map(wall, joins)) / ours:.1f} times quicker than the best plain Spark join, and takes "
        f"{ours / wall(by_peer[FLOOR]):.2f} times as long as pyarrow reading all columns of both sides."
    ]


def _line(name: str, figures: list[Figure], base: list[Figure] | None, ours: list[Figure] | None) -> list[str]:
    walls = [one.wall_s for one in figures]
    both_sides = 2 * figures[0].rows
    read = figures[0].read_bytes
    return [
        ENTRIES[name].title,
        str(len(figures)),
        f"{wall(figures):.2f}",
        f"{min(walls):.2f} to {max(walls):.2f}",
        f"{cpu(figures):.1f}",
        f"{cpu(figures) / both_sides * 1e9:.0f}",
        f"{read / both_sides:.2f}" if read is not None else "",
        f"{middle(figures, lambda one: one.shuffled_bytes) / 1e6:.0f}",
        f"{middle(figures, lambda one: one.written_bytes) / 1e6:.1f}",
        f"{middle(figures, lambda one: one.jvm_bytes) / 1e9:.1f}",
        f"{middle(figures, lambda one: one.python_bytes) / 1e9:.2f}",
        f"{max(one.foreign_cores for one in figures):.1f}",
        f"{wall(base) / wall(figures):.1f}" if base else "",
        f"{wall(figures) / wall(ours):.2f}" if ours else "",
    ]
