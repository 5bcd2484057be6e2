"""Replays snapshots and rolls back while readers query the table. Every answer must be that of a live generation.

Some snapshots are published, and all of them are replayed, which must change nothing. The table is rolled back by a few
generations, one at a time, and then to the newest again. Finally it is rolled back to the first generation, and all
later snapshots are replayed in random order. Then the table must be equal to that after the last publish.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soak.readers.observation import make_section, observe
from soak.readers.oracle_publisher import OraclePublisher
from soak.readers.stand_in_servers import open_servers
from soak.report import Section

GENERATIONS_BACK = 3


class ReplayScenario:
    """The steps of the scenario. `problems`: sentences about differences between target and the oracle's table."""

    def __init__(self, publisher: OraclePublisher, rng: random.Random) -> None:
        self.problems: list[str] = []
        self._publisher = publisher
        self._rng = rng
        self._names: list[str] = []

    def publish(self) -> None:
        """Publish one more snapshot."""
        self._names.append(self._publisher.land())
        self._run(self._publisher.publish, self._names[-1])

    def run(self, snapshots: int) -> None:
        """Run the scenario with this number of snapshots. The first of them must be published already."""
        publisher = self._publisher
        for _ in range(snapshots - 1):
            self.publish()
        published = [swap.generation for swap in publisher.swaps]
        self._replay(self._names)
        earlier_generations = published[-2 : -2 - GENERATIONS_BACK : -1]
        for generation in (*earlier_generations, published[-1], published[0]):
            self._run(publisher.roll_back, generation)
        self._replay(self._names[1:])
        if publisher.swaps[-1].expected_answers != publisher.swaps[snapshots - 1].expected_answers:
            self.problems.append("replays in another order ended in another table than the publishes")

    def _replay(self, names: list[str]) -> None:
        for name in self._rng.sample(names, len(names)):
            self._run(self._publisher.replay, name)

    def _run(self, action: Callable[[Any], None], argument: Any) -> None:
        action(argument)
        self.problems += self._publisher.describe_differences()


def run(folder: Path, *, snapshots: int, per_second: float, seed: int) -> Section:
    """Run the scenario on servers of its own below `folder`.

    `per_second`: queries a second, of all readers together. `seed`: of the random order of replays.
    """
    with open_servers(folder) as servers:
        publisher = OraclePublisher(servers.feed)
        scenario = ReplayScenario(publisher, random.Random(seed))
        scenario.publish()
        observation = observe(servers, per_second, lambda: scenario.run(snapshots))
    return make_section("Replays and rollbacks under readers", publisher, observation, scenario.problems)
