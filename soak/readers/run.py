"""The run: readers ask all the time, the course publishes and fails, then every answer is judged."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

from soak.readers.course import Course, disturbances
from soak.readers.publisher import Publisher
from soak.readers.servers import open_servers
from soak.readers.watching import judged, watch
from soak.report import Section


def run(folder: Path, *, swaps: int, per_second: float, must_keep_pace: bool) -> Section:
    """`swaps` swaps with disturbances in between, while readers ask `per_second` questions a second.

    On servers of its own below `folder`. With `must_keep_pace`, a run in which they could not ask that many has failed.
    """
    with open_servers(folder) as servers:
        publisher = Publisher(servers.world)
        course = Course(publisher, servers.stand_in_url)
        course.publish()
        watched = watch(servers, per_second, lambda: _go_through(course, swaps))
        problems = list(publisher.differences())
    if must_keep_pace and not watched.keeps_pace:
        problems.append(f"{watched.rate:.1f} queries a second, expected {per_second:.0f}: run it on a quiet machine")
    return judged("Readers during swaps", publisher, watched, problems)


def _go_through(course: Course, swaps: int) -> None:
    next_disturbance = cycle(disturbances(course))
    while len(course.publisher.swaps) < swaps:
        course.publish()
        if len(course.publisher.swaps) < swaps - 1:
            next(next_disturbance)()
