"""Readers query the table while publishes succeed and fail, and every answer is checked against the swaps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from google.api_core.exceptions import GoogleAPICallError

from dedup_clone.contract.errors import DedupCloneError
from soak.readers.observation import make_section, observe
from soak.readers.oracle_publisher import OraclePublisher
from soak.readers.stand_in_servers import open_servers
from soak.report import Section
from testkit.errors import HarnessError
from testkit.stand_in_faults import add_fault, clear_faults

# The client does not retry after the error `invalidQuery`.
REFUSED_SWAP = {"match": {"job_id": "-swap-"}, "effect": "error", "reason": "invalidQuery"}
SLOW_LOAD = {"match": {"job_type": "load"}, "effect": "delay", "seconds": 0.5}
FAILED_LOAD = {"match": {"job_type": "load"}, "effect": "error"}
UNAVAILABLE = {"match": {"method": "POST", "path": "/queries$"}, "effect": "error", "status": 503, "times": 5}


class SwapScenario:
    """Publishes, and publishes with a fault, on one feed."""

    def __init__(self, publisher: OraclePublisher, stand_in_url: str) -> None:
        self.publisher = publisher
        self._world = publisher.world
        self._stand_in_url = stand_in_url

    def publish(self) -> None:
        """Land a delivery and publish it, with the whole backlog, without a fault."""
        self.publisher.publish(self.publisher.land())

    def die_before_commit(self) -> None:
        """Swap, and do not commit: the next run has to recover."""
        spec = self.publisher.prepare(self.publisher.land())
        self._world.load(spec)
        self.publisher.check_and_swap(spec)
        self._count("death between swap and commit")

    def roll_back(self) -> None:
        """Make the generation before the live one live again."""
        self.publisher.roll_back(self.publisher.swaps[-2].generation)

    def die_after_load(self) -> None:
        """Load staging slowly, and do nothing after it."""
        spec = self.publisher.prepare(self.publisher.land())
        with self._fault(SLOW_LOAD):
            self._world.load(spec)
        self._count("death after a load")

    def fail_in_load(self) -> None:
        spec = self.publisher.prepare(self.publisher.land())
        with self._fault(FAILED_LOAD), self._must_fail():
            self._world.load(spec)
        self._count("failed load")

    def fail_in_swap(self) -> None:
        """The job fails before it changes anything."""
        spec = self.publisher.prepare(self.publisher.land())
        self._world.load(spec)
        swap = self._world.check(spec)
        with self._fault(REFUSED_SWAP), self._must_fail():
            self._world.swap(spec, swap)
        self._count("failed swap")

    def refuse_delivery(self) -> None:
        """Land a delivery that the job refuses; the load fails if no other delivery is published with it."""
        self._world.dedup.refused_ids.add(self.publisher.next_id)
        name = self.publisher.land()
        self.publisher.remove_from_backlog(name)
        spec = self.publisher.prepare(name)
        if spec.snapshot_id in self._world.dedup.refused_ids:
            with self._must_fail():
                self._world.load(spec)
        self._count("refused delivery")

    def fail_queries(self) -> None:
        """Let BigQuery answer some queries with 503, after which the client retries by itself."""
        add_fault(self._stand_in_url, UNAVAILABLE)
        self._count("five queries answered with 503")

    def _count(self, event: str) -> None:
        self.publisher.events[event] += 1

    @contextlib.contextmanager
    def _fault(self, fault: dict[str, Any]) -> Iterator[None]:
        add_fault(self._stand_in_url, fault)
        try:
            yield
        finally:
            clear_faults(self._stand_in_url)

    @contextlib.contextmanager
    def _must_fail(self) -> Iterator[None]:
        try:
            yield
        except (DedupCloneError, GoogleAPICallError):
            return
        raise HarnessError("A step that was made to fail succeeded: its fault had no effect.")

    def run(self, swaps: int) -> None:
        """Publish until there were `swaps` swaps, with a fault or a rollback after each publish."""
        faulty_steps = cycle(
            [
                self.fail_in_load,
                self.roll_back,
                self.refuse_delivery,
                self.die_before_commit,
                self.fail_queries,
                self.die_after_load,
                self.fail_in_swap,
            ]
        )
        while len(self.publisher.swaps) < swaps:
            self.publish()
            if len(self.publisher.swaps) < swaps - 1:
                next(faulty_steps)()


def run(folder: Path, *, swaps: int, per_second: float, must_keep_rate: bool) -> Section:
    """Run the scenario on servers of its own below `folder`, while readers run `per_second` queries a second.

    With `must_keep_rate`, the run fails when the readers reach a lower rate.
    """
    with open_servers(folder) as servers:
        publisher = OraclePublisher(servers.world)
        scenario = SwapScenario(publisher, servers.stand_in_url)
        scenario.publish()
        observation = observe(servers, per_second, lambda: scenario.run(swaps))
        problems = list(publisher.differences())
    if must_keep_rate and not observation.keeps_rate:
        problems.append(
            f"{observation.rate:.1f} queries per second, expected {per_second:.0f}: run it on a quiet machine"
        )
    return make_section("Readers during swaps", publisher, observation, problems)
