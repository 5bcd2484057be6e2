"""The answers that the soak expects after each swap, computed for a fake feed that publishes nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from soak.readers.oracle_publisher import PRODUCTS, OraclePublisher
from soak.readers.swap_scenario import SwapScenario
from testkit.errors import HarnessError


class FakeFeed:
    """The methods of FeedOnStandIn without a server.

    `generation`: the newest one. `table`: what `rows` returns. `replayed`: for each publish whether it was a replay.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.table: list[tuple[Any, ...]] = []
        self.replayed: list[bool] = []

    def land(self, snapshot_id: int, rows: list[dict[str, Any]]) -> str:
        self.landed = [(r["date"], r["product_id"], r["attr_value"], r["update_id"]) for r in rows]
        return f"{snapshot_id}-1"

    def resolve(self, name: str, *, replay: bool = False, **conf: Any) -> Any:
        self.generation += 1
        self.replayed.append(replay)
        return SimpleNamespace(generation=self.generation, snapshot_id=int(name.partition("-")[0]))

    def roll_back(self, generation: int, run_id: str) -> Any:
        self.generation += 1
        return SimpleNamespace(generation=self.generation)

    def rows(self) -> list[tuple[Any, ...]]:
        return self.table

    def deduplicate(self, spec: Any) -> None: ...

    def load(self, spec: Any) -> None: ...

    def check(self, spec: Any) -> None: ...

    def swap(self, spec: Any, swap: None) -> None: ...

    def commit(self, spec: Any) -> None: ...


def test_missing_and_surplus_rows_are_described_with_examples() -> None:
    feed: Any = FakeFeed()
    publisher = OraclePublisher(feed)
    publisher.publish(publisher.land())
    feed.table = feed.landed
    assert publisher.describe_differences() == ()
    day, product, value, id_ = feed.landed[0]
    feed.table = [(day, product, value + 1, id_), *feed.landed[1:]]
    (description,) = publisher.describe_differences()
    assert description.startswith("target of generation 1: 1 rows too many, 1 too few: ")
    assert str((day, product, value, id_)) in description


def test_a_rollback_restores_the_rows_of_its_generation_and_replays_restore_the_newest_rows() -> None:
    feed: Any = FakeFeed()
    publisher = OraclePublisher(feed)
    names = []
    for _ in range(3):
        names.append(publisher.land())
        publisher.publish(names[-1])
    publisher.roll_back(1)
    for name in (names[2], names[1]):
        publisher.replay(name)
    answers = [swap.expected_answers for swap in publisher.swaps]
    assert answers[3] == answers[0]
    assert answers[5] == answers[2] != answers[4]
    assert feed.replayed == [False, False, False, True, True]
    assert publisher.events == {"publish": 3, "rollback": 1, "replay": 2}


def test_a_refused_delivery_need_not_fail_a_publish_in_which_another_one_waits() -> None:
    feed: Any = FakeFeed()
    feed.dedup = SimpleNamespace(refused_ids=set())
    publisher = OraclePublisher(feed)
    scenario = SwapScenario(publisher, "")
    with pytest.raises(HarnessError, match="its fault had no effect"):
        scenario.refuse_delivery()  # the fake feed refuses nothing
    publisher.land()
    scenario.refuse_delivery()
    assert feed.dedup.refused_ids == {1, 3}


def test_a_delivery_that_is_removed_from_the_backlog_never_becomes_live() -> None:
    publisher = OraclePublisher(FakeFeed())  # type: ignore[arg-type]
    publisher.remove_from_backlog(publisher.land())
    publisher.publish(publisher.land())
    ((_, rows, _),) = next(a for a in publisher.swaps[0].expected_answers.values() if len(a[0]) == 3)
    assert rows == 2 * (PRODUCTS - 1)
