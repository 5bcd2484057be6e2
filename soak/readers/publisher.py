"""Publishes on one feed step by step, and knows by an independent computation what readers must then see."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from dedup_clone.publish.orders import PublishOrder
from soak.readers.timeline import Swap, answers
from tests.contract.publish.feed_world import TODAY, YESTERDAY, FeedWorld, expected, row
from tests.oracle import OracleDelivery, OracleState, OracleTable

PRODUCTS = 200
TABLE = OracleTable("date", "update_id", ("date", "product_id", "store_id", "attribute_id"), ("attr_value",))
RETENTION_DAY = TODAY - timedelta(days=700)


class Publisher:
    """`swaps` is the timeline that readers are judged by; `happened` counts what was done."""

    def __init__(self, world: FeedWorld) -> None:
        self.world = world
        self.swaps: list[Swap] = []
        self.happened: Counter[str] = Counter()
        self._landed: dict[str, OracleDelivery] = {}
        self._waiting: list[OracleDelivery] = []
        self._state = OracleState(TABLE)
        self._states: dict[int, OracleState] = {}

    @property
    def next_id(self) -> int:
        return len(self._landed) + 1

    def land(self) -> str:
        """One more snapshot, whose delivery waits; returns its name. Each lacks another product than its neighbours."""
        id_ = self.next_id
        rows = [
            row(id_, product, id_ * 1000 + product, day=day)
            for day in (YESTERDAY, TODAY)
            for product in range(PRODUCTS)
            if product != id_ % PRODUCTS
        ]
        name = self.world.land(id_, rows)
        self._landed[name] = OracleDelivery(id_, rows)
        self._waiting.append(self._landed[name])
        return name

    def set_aside(self, name: str) -> None:
        """The delivery waits no more: it will be refused."""
        self._waiting.remove(self._landed[name])

    def prepare(self, name: str, **trigger: Any) -> PublishOrder:
        """Resolve and deduplicate: what can be loaded."""
        order = self.world.resolve(name, **trigger)
        self.world.deduplicate(order)
        return order

    def go_live(self, order: PublishOrder, *more: OracleDelivery) -> None:
        """Check and swap: all that waits becomes live at one instant, and `more`."""
        swap = self.world.check(order)
        applied = sorted([*self._waiting, *more], key=lambda delivery: delivery.snapshot_id)
        with self._swapping(order.generation, self._state.apply(applied, RETENTION_DAY)):
            self.world.swap(order, swap)
        self._waiting.clear()

    def publish(self, name: str) -> None:
        """A delivery, with all that waits, without disturbance."""
        order = self.prepare(name)
        self.world.load(order)
        self.go_live(order)
        self.world.commit(order)
        self.happened["publish"] += 1

    def replay(self, name: str) -> None:
        """A delivery by hand, be it live, excluded or older than what is live."""
        order = self.prepare(name, replay=True, run_id=f"replay-{len(self.swaps)}", reason="once more")
        self.world.load(order)
        self.go_live(order, self._landed[name])
        self.world.commit(order)
        self.happened["replay"] += 1

    def roll_back(self, generation: int) -> None:
        """That generation's content is made live again; what waits goes on waiting."""
        began = time.monotonic()
        record = self.world.roll_back(generation, run_id=f"rollback-{len(self.swaps)}")
        self._went_live(record.generation, self._states[generation], began)
        self.happened["rollback"] += 1

    def differences(self) -> Sequence[str]:
        """What target holds that it must not, and what it lacks, in a sentence; empty when it is right."""
        found, wanted = Counter(self.world.rows()), Counter(expected(*self._state.rows.values()))
        if found == wanted:
            return ()
        more, fewer = found - wanted, wanted - found
        generation = self.swaps[-1].generation
        examples = ", ".join(map(str, [*more, *fewer][:3]))
        return (
            f"target of generation {generation}: {more.total()} rows too many, {fewer.total()} too few: {examples}",
        )

    @contextlib.contextmanager
    def _swapping(self, generation: int, state: OracleState) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._went_live(generation, state, began)

    def _went_live(self, generation: int, state: OracleState, began: float) -> None:
        self._state = self._states[generation] = state
        self.swaps.append(Swap(generation, answers(state.rows.values()), began, time.monotonic()))
