"""What happens while readers ask: publishes, and between them everything that may go wrong with one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from google.api_core.exceptions import GoogleAPICallError

from dedup_clone.contract.errors import DedupCloneError
from devstack.http_calls import call
from soak.errors import SoakError
from soak.readers.publisher import Publisher

# Not one of the errors that the client asks again for.
REFUSED_SWAP = {"match": {"job_id": "-swap-"}, "effect": "error", "reason": "invalidQuery"}
SLOW_LOAD = {"match": {"job_type": "load"}, "effect": "delay", "seconds": 0.5}
FAILED_LOAD = {"match": {"job_type": "load"}, "effect": "error"}
UNAVAILABLE = {"match": {"method": "POST", "path": "/queries$"}, "effect": "error", "status": 503, "times": 5}


class Course:
    """Publishes and disturbances on one feed."""

    def __init__(self, publisher: Publisher, stand_in_url: str) -> None:
        self.publisher = publisher
        self._world = publisher.world
        self._stand_in_url = stand_in_url

    def publish(self) -> None:
        """One delivery, published without disturbance, with all that waited."""
        self.publisher.publish(self.publisher.land())

    def publish_and_die_before_commit(self) -> None:
        """The swap is committed, its run is dead: the next run heals."""
        order = self.publisher.prepare(self.publisher.land())
        self._world.load(order)
        self.publisher.go_live(order)
        self._note("death between swap and commit")

    def roll_back(self) -> None:
        """The generation before the live one is made live again."""
        self.publisher.roll_back(self.publisher.swaps[-2].generation)

    def die_in_load(self) -> None:
        """Staging is loaded slowly, and nobody goes on."""
        order = self.publisher.prepare(self.publisher.land())
        with self._fault(SLOW_LOAD):
            self._world.load(order)
        self._note("death after a load")

    def fail_in_load(self) -> None:
        order = self.publisher.prepare(self.publisher.land())
        with self._fault(FAILED_LOAD), self._must_fail():
            self._world.load(order)
        self._note("failed load")

    def fail_in_swap(self) -> None:
        """The job fails before it changes anything."""
        order = self.publisher.prepare(self.publisher.land())
        self._world.load(order)
        swap = self._world.check(order)
        with self._fault(REFUSED_SWAP), self._must_fail():
            self._world.swap(order, swap)
        self._note("failed swap")

    def refuse(self) -> None:
        self._world.dedup.refuse.add(self.publisher.next_id)
        name = self.publisher.land()
        self.publisher.set_aside(name)
        order = self.publisher.prepare(name)
        if order.snapshot_id in self._world.dedup.refuse:
            with self._must_fail():
                self._world.load(order)
        self._note("refused delivery")

    def trouble_readers(self) -> None:
        """BigQuery answers some queries with 503; the client asks again, as it does on its own."""
        self._add_fault(UNAVAILABLE)
        self._note("five queries answered with 503")

    def _note(self, what: str) -> None:
        self.publisher.happened[what] += 1

    @contextlib.contextmanager
    def _fault(self, fault: dict[str, Any]) -> Iterator[None]:
        self._add_fault(fault)
        try:
            yield
        finally:
            call("DELETE", f"{self._stand_in_url}/_standin/faults")

    def _add_fault(self, fault: dict[str, Any]) -> None:
        answer = call("POST", f"{self._stand_in_url}/_standin/faults", body=fault)
        if not answer.ok:
            raise SoakError(f"The stand-in takes no fault [{fault}]: {answer.text[:300]}")

    @contextlib.contextmanager
    def _must_fail(self) -> Iterator[None]:
        try:
            yield
        except (DedupCloneError, GoogleAPICallError):
            return
        raise SoakError("A step that was made to fail ended well: the fault did not fire.")


def disturbances(course: Course) -> list[Callable[[], None]]:
    """What happens between publishes, in turn."""
    return [
        course.fail_in_load,
        course.roll_back,
        course.refuse,
        course.publish_and_die_before_commit,
        course.trouble_readers,
        course.die_in_load,
        course.fail_in_swap,
    ]
