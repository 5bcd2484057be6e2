"""Publishes a feed step by step. Computes with testkit/oracle.py which answers readers must get after each swap."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

from dedup_clone.publish.step_specs import PublishSpec
from soak.readers.expected_answers import Swap, expected_answers
from testkit.fake_dedup_job import Row
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from testkit.oracle import OracleDelivery, OracleState, OracleTable

PRODUCTS = 200
TABLE = OracleTable("date", "update_id", ("date", "product_id", "store_id", "attribute_id"), ("attr_value",))
RETENTION_DAY = TODAY - timedelta(days=700)  # the oracle drops older rows; no snapshot has any


def numbered_row(snapshot_id: int, product: int, day: date) -> Row:
    """A row whose value is different for each snapshot and each product."""
    return row(snapshot_id, product, snapshot_id * 1000 + product, day=day)


COLUMNS = tuple(numbered_row(0, 0, TODAY))


class OraclePublisher:
    """Publishes, replays and rolls back `feed`.

    `make_row`: makes the row of a snapshot, product and date. `columns`: the names of target's columns after the next
    swap. `swaps`: every swap so far, with the answers that readers must get after it. `events`: the number of
    publishes, replays, rollbacks, injected faults and changes of columns, by name.
    """

    def __init__(self, feed: FeedOnStandIn) -> None:
        self.feed = feed
        self.make_row: Callable[[int, int, date], Row] = numbered_row
        self.columns = COLUMNS
        self.swaps: list[Swap] = []
        self.events: Counter[str] = Counter()
        self._landed: dict[str, OracleDelivery] = {}
        self._backlog: list[OracleDelivery] = []
        self._state = OracleState(TABLE)
        self._states: dict[int, OracleState] = {}

    @property
    def next_id(self) -> int:
        return len(self._landed) + 1

    @property
    def has_backlog(self) -> bool:
        """Whether a delivery waits that the job will accept."""
        return bool(self._backlog)

    def land(self) -> str:
        """Land one more snapshot, and return its delivery's name. Consecutive snapshots lack different products."""
        snapshot_id = self.next_id
        rows = [
            self.make_row(snapshot_id, product, day)
            for day in (YESTERDAY, TODAY)
            for product in range(PRODUCTS)
            if product != snapshot_id % PRODUCTS
        ]
        name = self.feed.land(snapshot_id, rows)
        self._landed[name] = OracleDelivery(snapshot_id, rows)
        self._backlog.append(self._landed[name])
        return name

    def remove_from_backlog(self, name: str) -> None:
        """Leave this delivery out of the expected rows, because the job will refuse it."""
        self._backlog.remove(self._landed[name])

    def prepare(self, name: str, **conf: Any) -> PublishSpec:
        """Run the steps of a publish up to the dedup job. `conf`: other fields of the PublishRequest."""
        spec = self.feed.resolve(name, **conf)
        self.feed.deduplicate(spec)
        return spec

    def check_and_swap(self, spec: PublishSpec, *replayed: OracleDelivery) -> None:
        """Check staging, swap, and record the swap. It must make the whole backlog and the replayed deliveries live."""
        swap = self.feed.check(spec)
        applied = sorted([*self._backlog, *replayed], key=lambda delivery: delivery.snapshot_id)
        expected_state = self._state.apply(applied, RETENTION_DAY)
        began = time.monotonic()
        self.feed.swap(spec, swap)
        self._record_swap(spec.generation, expected_state, began)
        self._backlog.clear()

    def publish(self, name: str) -> None:
        """Publish a delivery together with the whole backlog."""
        spec = self.prepare(name)
        self.feed.load(spec)
        self.check_and_swap(spec)
        self.feed.commit(spec)
        self.events["publish"] += 1

    def replay(self, name: str) -> None:
        """Replay a delivery, which may be included already, excluded, or older than the newest live snapshot."""
        spec = self.prepare(name, replay=True, run_id=f"replay-{len(self.swaps)}", reason="once more")
        self.feed.load(spec)
        self.check_and_swap(spec, self._landed[name])
        self.feed.commit(spec)
        self.events["replay"] += 1

    def roll_back(self, generation: int) -> None:
        """Make the content of a generation live again. The backlog goes on waiting."""
        began = time.monotonic()
        record = self.feed.roll_back(generation, run_id=f"rollback-{len(self.swaps)}")
        self._record_swap(record.generation, self._states[generation], began)
        self.events["rollback"] += 1

    def describe_differences(self) -> Sequence[str]:
        """One sentence about how target differs from the oracle's table; none if they are equal."""
        found, expected_rows = Counter(self.feed.rows()), Counter(expected(*self._state.rows.values()))
        if found == expected_rows:
            return ()
        surplus, missing = found - expected_rows, expected_rows - found
        generation = self.swaps[-1].generation
        examples = ", ".join(map(str, [*surplus, *missing][:3]))
        return (
            f"target of generation {generation}: {surplus.total()} rows too many, {missing.total()} too few: "
            f"{examples}",
        )

    def _record_swap(self, generation: int, state: OracleState, began: float) -> None:
        self._state = self._states[generation] = state
        answers = expected_answers(list(state.rows.values()), self.columns)
        self.swaps.append(Swap(generation, answers, began, time.monotonic()))
