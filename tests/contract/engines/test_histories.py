"""Random histories of a feed by each engine: table and manifest are the oracle's after every step.

Snapshots wait together, arrive in any order and lack keys and dates, which are kept or deleted; days pass; checks stop
publishes, and what they stop is replayed at the end.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Any

import pytest

from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.table import Absent, PartitionBy, TableContract
from dedup_clone.settings.check_settings import CheckSettings
from testkit import deliveries, runs
from testkit.feed_against_oracle import NO_LIMITS, FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import today
from testkit.generated_tables import GeneratedHistory, random_table
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import NESTED, PRODUCTS, by_time
from tests.contract.engines.streamed_feed import feed_with
from tests.thoroughness import seeds

STRICT = CheckSettings(max_new_share=0, max_survivor_share=0, max_deleted_share=0, max_changed_share=0)
# What becomes of keys and dates that the newest snapshot lacks.
ABSENT = [(Absent.KEEP, Absent.KEEP), (Absent.DELETE, Absent.KEEP), (Absent.DELETE, Absent.DELETE)]
KINDS = ["DATE", "TIMESTAMP", "DATETIME"]  # of the partition column
WAYS = [
    *((Engine.BIGQUERY, form) for form in SqlForm),
    *((engine, SqlForm.QUALIFY) for engine in (Engine.MERGE, Engine.SPARK, Engine.CDC)),
]
STEPS = ["new_snapshots", "new_snapshots", "new_snapshots", "correction", "replay", "rollback"]


def oldest(table: TableContract) -> date:
    """The oldest date that has not expired today. Tomorrow it will have."""
    return today() - timedelta(days=table.retention_days - 1)


class History:
    """Takes random steps on a feed. Engine cdc takes snapshots in their order only."""

    def __init__(self, world: FeedAgainstOracle, snapshots: GeneratedHistory, random: Random) -> None:
        self.world, self.snapshots, self.random = world, snapshots, random
        self.is_in_order = world.feed.engine is Engine.CDC
        self.state = OracleState(
            world.oracle_table,
            last_changed=self.is_in_order,
            deletes_keys=world.table.absent_keys is Absent.DELETE,
            deletes_dates=world.table.absent_dates is Absent.DELETE,
        )
        self.landed: dict[int, str] = {}
        self.delivered: dict[str, OracleDelivery] = {}
        self.held: list[str] = []
        self.states: dict[int, OracleState] = {}
        self.days_passed = self.runs = 0

    @property
    def newest(self) -> int:
        return max(self.landed, default=0)

    def new_snapshots(self) -> None:
        """One or two snapshots come, with any ids that are left; or the next one."""
        free = [number for number in range(1, self.newest + 6) if number not in self.landed]
        ids = [self.newest + 1] if self.is_in_order else self.random.sample(free, self.random.randint(1, 2))
        self.publish([self.land(number) for number in ids])

    def correction(self) -> None:
        if self.landed[self.newest] not in self.held:
            self.publish([self.land(self.newest)])

    def replay(self) -> None:
        names = [self.landed[self.newest]] if self.is_in_order else sorted(set(self.landed.values()) - {*self.held})
        if names:
            self.publish_again(self.random.choice(names))

    def rollback(self) -> None:
        live = self.world.services.current.read().generation
        earlier = [generation for generation in self.states if generation != live]
        if earlier:
            restored = self.random.choice(earlier)
            record = self.world.roll_back(restored, run_id=self.run_id())
            self.remember(record.generation, replace(self.states[restored], counts={}, dropped=0))

    def land(self, snapshot_id: int) -> str:
        rows = self.snapshots.snapshot(snapshot_id)
        name = self.landed[snapshot_id] = self.world.land(snapshot_id, rows)
        self.delivered[name] = OracleDelivery(snapshot_id, rows)
        return name

    def publish(self, names: list[str]) -> None:
        """Publish what waits. What a check stops is held: of several deliveries all but the newest."""
        waiting = sorted(names, key=lambda name: self.delivered[name].snapshot_id)
        while waiting:
            is_strict = self.states and not self.is_in_order and self.random.random() < 0.5
            self.world.feed = self.world.feed.model_copy(update={"checks": STRICT if is_strict else NO_LIMITS})
            run = runs.publish(self.world, waiting[-1], run_id=self.run_id())
            try:
                run.until("check")
            except CheckFailed:
                assert not run.end()
                stopped = waiting[:-1] or waiting
                assert {*stopped} <= {*deliveries.held_deliveries(self.world)}
                self.held += stopped
                waiting = [name for name in waiting if name not in stopped]
            else:
                self.apply(run.finish().generation, waiting)
                waiting = []

    def publish_again(self, name: str) -> None:
        self.world.feed = self.world.feed.model_copy(update={"checks": NO_LIMITS})
        is_live = name in {delivery.name for delivery in self.world.manifest().deliveries}
        record = self.world.publish(name, replay=True, reason="it is right", run_id=self.run_id())
        # The Spark job reads nothing of what is live already, unless keys may have been deleted.
        reads_nothing = is_live and self.world.feed.engine is Engine.SPARK and not self.state.has_deleted
        self.apply(record.generation, [] if reads_nothing else [name])

    def apply(self, generation: int | None, names: list[str]) -> None:
        retention_day = oldest(self.world.table) + timedelta(days=self.days_passed)
        self.remember(generation, self.state.apply([self.delivered[name] for name in names], retention_day))

    def remember(self, generation: int | None, state: OracleState) -> None:
        assert generation
        self.states[generation] = self.state = state
        self.world.assert_equal(state)

    def let_a_day_pass(self) -> None:
        before = self.world.now
        self.world.now = lambda: before() + timedelta(days=1)
        self.days_passed += 1

    def run_id(self) -> str:
        self.runs += 1
        return f"run-{self.runs}"


def histories() -> list[Any]:
    """Seeds, each with an engine and its form in turn."""
    ways = [(seed, *WAYS[seed % len(WAYS)]) for seed in seeds(3 * len(WAYS))]
    return [pytest.param(*way, marks=[pytest.mark.spark] if way[1] is Engine.SPARK else []) for way in ways]


@pytest.mark.parametrize(("seed", "engine", "form"), histories())
def test_random_history(request: pytest.FixtureRequest, seed: int, engine: Engine, form: SqlForm) -> None:
    random, is_streamed = Random(seed), engine is Engine.CDC
    of_any_type = NESTED if random.random() < 0.5 else random_table(random, floats_in_arrays=engine is Engine.SPARK)
    keys, dates = ABSENT[seed // len(WAYS) % len(ABSENT)]
    kind = KINDS[(seed // len(WAYS) + seed) % len(KINDS)]
    # By hour, generations of engine `spark` can be restored only as long as their files are there.
    unit = PartitionBy.HOUR if seed // len(WAYS) % 2 and engine is not Engine.SPARK else PartitionBy.DAY
    of_any_type = of_any_type if kind == "DATE" else by_time(of_any_type, kind, unit)
    table = replace(PRODUCTS if is_streamed else of_any_type, absent_keys=keys, absent_dates=dates)
    if is_streamed:
        world: FeedAgainstOracle = feed_with(request.getfixturevalue("streaming_clients"), table)
    else:
        feed = feed_with_table(table, engine, form, date_folders=random.random() < 0.5)
        world = FeedAgainstOracle(request.getfixturevalue("clients"), feed)
    if engine is Engine.SPARK:
        world.dedup = request.getfixturevalue("real_dedup")
    # A day passes for the product alone: in BigQuery, where streamed rows stay in staging, no partition expires.
    first_day = today() - timedelta(days=4) if is_streamed or random.random() < 0.5 else oldest(table)
    snapshots = GeneratedHistory(table, random, first_day, repeat=0.0 if is_streamed else 0.2)
    history = History(world, snapshots, random)
    for step in ["new_snapshots", *random.choices(STEPS, k=6)]:
        if random.random() < 0.2:
            history.let_a_day_pass()
        getattr(history, step)()
    for name in random.sample(history.held, k=len(history.held)):
        history.publish_again(name)
    assert deliveries.held_deliveries(world) == deliveries.waiting_deliveries(world) == []
