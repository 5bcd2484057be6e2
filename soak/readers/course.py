"""What happens while readers ask: publishes, and between them everything that may go wrong with one."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from google.api_core.exceptions import GoogleAPICallError

from dedup_clone.contract.errors import DedupCloneError
from devstack.http_calls import call
from soak.errors import SoakError
from soak.readers.timeline import Key, Row, Swap, answers
from tests.contract.publish.feed_world import TODAY, YESTERDAY, FeedWorld, row

PRODUCTS = 200
# Not one of the errors that the client asks again for.
REFUSED_SWAP = {"match": {"job_id": "-swap-"}, "effect": "error", "reason": "invalidQuery"}


class Course:
    """Publishes on one feed; `swaps` is the timeline that readers are judged by."""

    def __init__(self, world: FeedWorld, stand_in_url: str) -> None:
        self.world = world
        self.swaps: list[Swap] = []
        self.happened: Counter[str] = Counter()
        self._stand_in_url = stand_in_url
        self._rows: dict[Key, Row] = {}
        self._contents: dict[int, dict[Key, Row]] = {}
        self._waiting: list[Sequence[Row]] = []
        self._next_id = 1

    def publish(self) -> None:
        """One delivery, published without disturbance, with all that waited."""
        order = self.world.resolve(self._land())
        self.world.dedup.run(order.request_uri)
        self.world.load(order)
        swap = self.world.check(order)
        with self._swapping(order.generation):
            self.world.swap(order, swap)
        self.world.commit(order)
        self.happened["publish"] += 1

    def publish_and_die_before_commit(self) -> None:
        """The swap is committed, its run is dead: the next run heals."""
        order = self.world.resolve(self._land())
        self.world.dedup.run(order.request_uri)
        self.world.load(order)
        swap = self.world.check(order)
        with self._swapping(order.generation):
            self.world.swap(order, swap)
        self.happened["death between swap and commit"] += 1

    def roll_back(self) -> None:
        """The generation before the live one is made live again; what waits goes on waiting."""
        wanted = self.swaps[-2].generation
        self._rows = dict(self._contents[wanted])
        began = time.monotonic()
        generation = self.world.roll_back(wanted, run_id=f"rollback-{len(self.swaps)}").generation
        self._went_live(generation, began)
        self.happened["rollback"] += 1

    def die_in_load(self) -> None:
        """Staging is loaded slowly, and nobody goes on."""
        order = self.world.resolve(self._land())
        self.world.dedup.run(order.request_uri)
        with self._fault({"match": {"job_type": "load"}, "effect": "delay", "seconds": 0.5}):
            self.world.load(order)
        self.happened["death after a load"] += 1

    def fail_in_load(self) -> None:
        order = self.world.resolve(self._land())
        self.world.dedup.run(order.request_uri)
        with self._fault({"match": {"job_type": "load"}, "effect": "error"}), self._must_fail():
            self.world.load(order)
        self.happened["failed load"] += 1

    def fail_in_swap(self) -> None:
        """The job fails before it changes anything."""
        order = self.world.resolve(self._land())
        self.world.dedup.run(order.request_uri)
        self.world.load(order)
        swap = self.world.check(order)
        with self._fault(REFUSED_SWAP), self._must_fail():
            self.world.swap(order, swap)
        self.happened["failed swap"] += 1

    def refuse(self) -> None:
        self.world.dedup.refuse.add(self._next_id)
        name = self._land()
        self._waiting.pop()
        order = self.world.resolve(name)
        self.world.dedup.run(order.request_uri)
        if order.snapshot_id in self.world.dedup.refuse:
            with self._must_fail():
                self.world.load(order)
        self.happened["refused delivery"] += 1

    def trouble_readers(self) -> None:
        """BigQuery answers some queries with 503; the client asks again, as it does on its own."""
        fault = {"match": {"method": "POST", "path": "/queries$"}, "effect": "error", "status": 503, "times": 5}
        self._add_fault(fault)
        self.happened["five queries answered with 503"] += 1

    def _land(self) -> str:
        id_ = self._next_id
        self._next_id += 1
        missing = id_ % PRODUCTS
        rows = [
            row(id_, product, id_ * 1000 + product, day=day)
            for day in (YESTERDAY, TODAY)
            for product in range(PRODUCTS)
            if product != missing
        ]
        self._waiting.append(rows)
        return self.world.land(id_, rows)

    @contextlib.contextmanager
    def _swapping(self, generation: int) -> Iterator[None]:
        """The block makes all that waits live, at one instant."""
        for rows in self._waiting:
            self._rows.update({(r["date"], r["product_id"]): r for r in rows})
        self._waiting.clear()
        began = time.monotonic()
        yield
        self._went_live(generation, began)

    def _went_live(self, generation: int, began: float) -> None:
        self._contents[generation] = dict(self._rows)
        self.swaps.append(Swap(generation, answers(self._rows.values()), began, time.monotonic()))

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
