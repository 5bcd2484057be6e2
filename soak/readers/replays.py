"""Replays and rollbacks while readers ask: whatever is replayed or restored, readers get exactly that, all the time.

First every snapshot is replayed on top of all of them, which changes nothing; then the table goes back by some
generations, one by one, and forward again; then it goes back to the first one, and all others are replayed in an order
of their own, so that each fills the gaps that newer ones have left.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soak.readers.publisher import Publisher
from soak.readers.servers import open_servers
from soak.readers.watching import judged, watch
from soak.report import Section

GENERATIONS_BACK = 3


class ReplayCourse:
    """`problems` are the states that were not what an independent computation says."""

    def __init__(self, publisher: Publisher, chance: random.Random) -> None:
        self.problems: list[str] = []
        self._publisher = publisher
        self._chance = chance
        self._names: list[str] = []

    def begin(self) -> None:
        """The first snapshot is live."""
        self._publish()

    def go_on(self, snapshots: int) -> None:
        """All the rest, until `snapshots` are live at the end as they were after the last publish."""
        publisher = self._publisher
        for _ in range(snapshots - 1):
            self._publish()
        published = [swap.generation for swap in publisher.swaps]
        self._replay(self._names)
        back = published[-2 : -2 - GENERATIONS_BACK : -1]
        for generation in (*back, published[-1], published[0]):
            self._do(publisher.roll_back, generation)
        self._replay(self._names[1:])
        if publisher.swaps[-1].answers != publisher.swaps[snapshots - 1].answers:
            self.problems.append("replays in another order ended in another table than the publishes")

    def _publish(self) -> None:
        self._names.append(self._publisher.land())
        self._do(self._publisher.publish, self._names[-1])

    def _replay(self, names: list[str]) -> None:
        for name in self._chance.sample(names, len(names)):
            self._do(self._publisher.replay, name)

    def _do(self, step: Callable[[Any], None], subject: Any) -> None:
        step(subject)
        self.problems += self._publisher.differences()


def run(folder: Path, *, snapshots: int, per_second: float, seed: int) -> Section:
    """On servers of its own below `folder`; the same seed gives the same orders."""
    with open_servers(folder) as servers:
        publisher = Publisher(servers.world)
        course = ReplayCourse(publisher, random.Random(seed))
        course.begin()
        watched = watch(servers, per_second, lambda: course.go_on(snapshots))
    return judged("Replays and rollbacks under readers", publisher, watched, course.problems)
