"""Publishes, with and without injected faults, while readers query the table. Every answer is checked."""

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

# Faults of the stand-in (docs/stand-in.md). BigQuery's client does not retry after the error `invalidQuery`.
FAILED_SWAP = {"match": {"job_id": "-swap-"}, "effect": "error", "reason": "invalidQuery"}
SLOW_LOAD = {"match": {"job_type": "load"}, "effect": "delay", "seconds": 0.5}
FAILED_LOAD = {"match": {"job_type": "load"}, "effect": "error"}
UNAVAILABLE = {"match": {"method": "POST", "path": "/queries$"}, "effect": "error", "status": 503, "times": 5}


class SwapScenario:
    """The steps of the scenario: publishes that succeed, and publishes in which something fails."""

    def __init__(self, publisher: OraclePublisher, stand_in_url: str) -> None:
        self.publisher = publisher
        self._feed = publisher.feed
        self._stand_in_url = stand_in_url

    def publish(self) -> None:
        """Land a delivery, and publish it with the whole backlog."""
        self.publisher.publish(self.publisher.land())

    def die_before_commit(self) -> None:
        """Stop a publish between swap and commit, as if its process had died. The next run has to complete it."""
        spec = self.publisher.prepare(self.publisher.land())
        self._feed.load(spec)
        self.publisher.check_and_swap(spec)
        self._count_event("death between swap and commit")

    def roll_back(self) -> None:
        """Make the generation before the live one live again."""
        self.publisher.roll_back(self.publisher.swaps[-2].generation)

    def die_after_load(self) -> None:
        """Stop a publish after a slow load, as if its process had died. The next run has to discard it."""
        spec = self.publisher.prepare(self.publisher.land())
        with self._fault(SLOW_LOAD):
            self._feed.load(spec)
        self._count_event("death after a load")

    def fail_in_load(self) -> None:
        spec = self.publisher.prepare(self.publisher.land())
        with self._fault(FAILED_LOAD), self._must_fail():
            self._feed.load(spec)
        self._count_event("failed load")

    def fail_in_swap(self) -> None:
        """Let the swap's BigQuery job fail before it changes anything."""
        spec = self.publisher.prepare(self.publisher.land())
        self._feed.load(spec)
        swap = self._feed.check(spec)
        with self._fault(FAILED_SWAP), self._must_fail():
            self._feed.swap(spec, swap)
        self._count_event("failed swap")

    def refuse_delivery(self) -> None:
        """Land a delivery that the dedup job refuses. If no other delivery waits, the dedup step must fail."""
        self._feed.dedup.refused_ids.add(self.publisher.next_id)
        name = self.publisher.land()
        self.publisher.remove_from_backlog(name)
        spec = self._feed.resolve(name)
        with contextlib.nullcontext() if self.publisher.has_backlog else self._must_fail():
            self._feed.deduplicate(spec)
        self._count_event("refused delivery")

    def fail_queries(self) -> None:
        """Let the stand-in answer some queries with status 503. BigQuery's client retries such queries by itself."""
        add_fault(self._stand_in_url, UNAVAILABLE)
        self._count_event("five queries answered with 503")

    def _count_event(self, event: str) -> None:
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
        """Require that the `with` block raises an error of this project or of BigQuery."""
        try:
            yield
        except (DedupCloneError, GoogleAPICallError):
            return
        raise HarnessError("A step that was made to fail succeeded: its fault had no effect.")

    def run(self, swaps: int) -> None:
        """Publish until there are `swaps` swaps. Between two publishes inject a fault or roll back."""
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

    `must_keep_rate`: whether a lower rate of the readers is a problem.
    """
    with open_servers(folder) as servers:
        publisher = OraclePublisher(servers.feed)
        scenario = SwapScenario(publisher, servers.stand_in_url)
        scenario.publish()
        observation = observe(servers, per_second, lambda: scenario.run(swaps))
        problems = list(publisher.describe_differences())
    if must_keep_rate:
        problems += observation.rate_problems()
    return make_section("Readers during swaps", publisher, observation, problems)
