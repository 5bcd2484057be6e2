"""Peak memory of the Python worker that works on one date, from two million rows a side to 128 million."""

from __future__ import annotations

from benchmarks.document import table
from benchmarks.material import SMALL, make_all, material
from benchmarks.peers.registry import IN_TASKS
from benchmarks.results import Results, figure, save
from benchmarks.rounds import Plan, Rounds
from benchmarks.say import say
from benchmarks.shape import Shape
from dedup_spark.fingerprints.buckets import bits_for

COMMAND = "memory"
ROWS = 128_000_000
_CARRIED, _COMPUTED = IN_TASKS, "adopt-computed-tasks"
LARGE_DATE_ROWS = 470_000_000
MIB = 2**20


def shapes(rows: int) -> list[Shape]:
    """`rows` are those of the largest date."""
    return [Shape(rows // part, 1) for part in (64, 16, 4, 1)]


def _of_peer(peer: str, chosen: list[Shape]) -> list[Shape]:
    """Without carried fingerprints the smallest and the largest are enough."""
    return chosen if peer == _CARRIED else [chosen[0], chosen[-1]]


def run(rows: int) -> Results:
    """Each size in a process of its own: what an earlier size left in memory cannot be seen."""
    chosen = shapes(rows)
    make_all([SMALL, *chosen], say)
    plans = [
        Plan(peer, (material(shape),), rounds=1, repeats=1, rehearse=False)
        for peer in (_CARRIED, _COMPUTED)
        for shape in _of_peer(peer, chosen)
    ]
    rounds = Rounds(material(SMALL).inputs, say)
    runs = rounds.run(plans)
    known = {shape.name: material(shape).dataset.rows for shape in chosen}
    found = [figure(run, known[run.inputs], 1) for run in runs]
    return save(COMMAND, found, rounds.failures, is_default_size=rows == ROWS)


def report(results: Results, rows: int = ROWS) -> str:
    lines = []
    for peer, title in ((_CARRIED, "carried"), (_COMPUTED, "computed")):
        for shape in _of_peer(peer, shapes(rows)):
            one = results.of(peer, shape.name)[0]
            lines.append(
                [
                    f"fingerprints {title}",
                    f"{one.rows:,}",
                    f"{one.worker_bytes / MIB:.0f}",
                    f"{one.driver_bytes / MIB:.0f}",
                    f"{one.wall_s:.1f}",
                    f"{one.cpu_s:.1f}",
                    one.notes["plans"],
                ]
            )
        lines.append(
            [f"fingerprints {title}, modelled", f"{LARGE_DATE_ROWS:,}", f"{large_date_mib(results, peer):.0f}"]
        )
    heads = ["one date", "rows a side", "worker MiB", "driver MiB", "wall s", "CPU s", "plan"]
    padded = [[*line, *[""] * (len(heads) - len(line))] for line in lines]
    return f"{table(heads, padded)}\n\n{results.made_at} UTC, {results.machine}."


def large_date_mib(results: Results, peer: str) -> float:
    """The straight line through the two largest dates, by their buckets, drawn on to a date of production."""
    points = sorted((_buckets(one.rows), one.worker_bytes / MIB) for one in results.of(peer))
    (few, less), (many, more) = points[-2:]
    slope = max(0.0, (more - less) / (many - few))
    return more + slope * (_buckets(LARGE_DATE_ROWS) - many)


def _buckets(rows: int) -> int:
    """As many as the job makes of so many rows of these data."""
    return 1 << bits_for(rows, Shape(rows, 1).differing)
