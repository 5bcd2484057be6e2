"""Feeds that delete what the newest snapshot lacks: by every engine the table is the oracle's, and checks bound it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.table import Absent
from dedup_clone.settings.check_settings import CheckSettings
from testkit import deliveries, operations, runs
from testkit.fake_dedup_job import Row
from testkit.feed_against_oracle import NO_LIMITS, FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY, YESTERDAY, row
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import PRODUCTS
from tests.contract.engines.streamed_feed import OLDEST, Clients, feed_with, load_jobs
from tests.thoroughness import seeds

KEEP, DELETE = Absent
DAYS = [TODAY - timedelta(days=number) for number in range(3)]
WAYS = [
    *((Engine.BIGQUERY, form) for form in SqlForm),
    *((engine, SqlForm.QUALIFY) for engine in (Engine.MERGE, Engine.SPARK, Engine.CDC)),
]
IN_ORDER = ["next_snapshot", "next_snapshot", "correction", "replay", "rollback"]
STEPS = [*IN_ORDER, "late_snapshot", "late_snapshot"]
# A share of 5 % is the default bound.
GUARDED = CheckSettings(max_new_share=1, max_changed_share=1, max_times_usual=None)


def feed_that_deletes(clients: Clients, engine: Engine, form: SqlForm, dates: Absent) -> FeedAgainstOracle:
    table = replace(PRODUCTS, absent_keys=DELETE, absent_dates=dates)
    if engine is Engine.CDC:
        return feed_with(clients, table)
    return FeedAgainstOracle(clients, feed_with_table(table, engine, form))


class History:
    """Takes random steps on a feed, and compares the table with the oracle's after each."""

    def __init__(self, world: FeedAgainstOracle, random: Random) -> None:
        self.world, self.random = world, random
        self.state = OracleState(
            world.oracle_table,
            last_changed=world.feed.engine is Engine.CDC,
            deletes_keys=True,
            deletes_dates=world.table.absent_dates is DELETE,
        )
        self.landed: dict[int, tuple[str, list[Row]]] = {}
        self.states: dict[int, OracleState] = {}
        self.runs = 0

    @property
    def newest(self) -> int:
        return max(self.landed, default=0)

    def next_snapshot(self) -> None:
        self.publish(self.land(self.newest + 10))

    def late_snapshot(self) -> None:
        self.publish(self.land(self.random.choice(sorted(set(range(1, self.newest)) - set(self.landed)))))

    def correction(self) -> None:
        self.publish(self.land(self.newest))

    def replay(self) -> None:
        ids = [self.newest] if self.world.feed.engine is Engine.CDC else sorted(self.landed)
        self.publish(self.random.choice(ids), replay=True, reason="again")

    def rollback(self) -> None:
        live = self.world.services.current.read().generation
        earlier = [generation for generation in self.states if generation != live]
        if earlier:
            restored, self.runs = self.random.choice(earlier), self.runs + 1
            record = self.world.roll_back(restored, run_id=f"rollback-{self.runs}")
            self.remember(record.generation, replace(self.states[restored], counts={}))

    def land(self, snapshot_id: int) -> int:
        """Land a snapshot. Its dates have some of ten products; all dates but one may be absent."""
        random = self.random
        days = random.sample(DAYS, random.choice([1, 2, 3, 3, 3]))
        rows = [
            row(snapshot_id, product, random.randint(0, 2), day=day)
            for day in days
            for product in random.sample(range(10), random.randint(1, 6))
        ]
        self.landed[snapshot_id] = self.world.land(snapshot_id, rows), rows
        return snapshot_id

    def publish(self, snapshot_id: int, **changes: Any) -> None:
        name, rows = self.landed[snapshot_id]
        self.runs += 1
        record = self.world.publish(name, run_id=f"run-{self.runs}", **changes)
        self.remember(record.generation, self.state.apply([OracleDelivery(snapshot_id, rows)], OLDEST))

    def remember(self, generation: int, state: OracleState) -> None:
        self.states[generation] = self.state = state
        self.world.assert_equal(state)


@pytest.mark.parametrize("seed", seeds(2 * len(WAYS)))
def test_every_engine_ends_in_the_oracles_table(streaming_clients: Clients, seed: int) -> None:
    random, (engine, form) = Random(seed), WAYS[seed % len(WAYS)]
    world = feed_that_deletes(streaming_clients, engine, form, [KEEP, DELETE][seed // len(WAYS) % 2])
    history = History(world, random)
    steps = random.choices(IN_ORDER if engine is Engine.CDC else STEPS, k=5)
    for step in ["next_snapshot", "next_snapshot", *steps]:
        getattr(history, step)()


@pytest.mark.parametrize(("engine", "form"), [WAYS[0], *WAYS[3:]])
def test_a_half_empty_snapshot_deletes_nothing_until_a_person_has_seen_what_it_would_delete(
    streaming_clients: Clients, engine: Engine, form: SqlForm
) -> None:
    world = feed_that_deletes(streaming_clients, engine, form, KEEP)
    world.feed = world.feed.model_copy(update={"checks": GUARDED})
    whole = [row(1, product) for product in range(20)] + [row(1, 1, day=YESTERDAY)]
    world.publish(world.land(1, whole))
    before = world.table_rows()
    half = [row(2, product) for product in range(10)] + [row(2, 1, day=YESTERDAY)]
    name = world.land(2, half)
    run = runs.publish(world, name, run_id="half-empty")
    with pytest.raises(CheckFailed, match="deleted_share"):
        run.finish()
    assert not run.end()
    assert (world.table_rows(), deliveries.held_deliveries(world)) == (before, [name])
    accepts = {"replay": True, "accepted_checks": ("deleted_share",), "reason": "they are gone"}
    shown = deliveries.dry_run_of(world, name, **accepts)
    assert f"10 of 21 rows deleted (47.6190%); most on {TODAY}: 10 of 20" in shown
    assert "keys that they lack are deleted on dates that they have" in shown
    world.publish(name, run_id="accepted", **accepts)
    assert {(found[0][1], found[1][1]) for found in world.table_rows()} == {
        *((TODAY, product) for product in range(10)),
        (YESTERDAY, 1),
    }
    (today, _) = sorted(world.manifest().dates, key=lambda entry: entry.date, reverse=True)
    assert (today.rows, today.deleted) == (10, 10)


def test_dates_that_would_be_deleted_are_bounded(clients: Clients) -> None:
    """By default one date may go. Its rows do not count as deleted keys."""
    world = feed_that_deletes(clients, Engine.BIGQUERY, SqlForm.QUALIFY, DELETE)
    world.feed = world.feed.model_copy(update={"checks": GUARDED})
    world.publish(world.land(1, [row(1, 1, day=day) for day in DAYS]))
    world.publish(world.land(2, [row(2, 1, day=day) for day in DAYS[:2]]))
    assert world.manifest().deleted_dates == {DAYS[2]: 1}
    world.feed = world.feed.model_copy(update={"checks": GUARDED.model_copy(update={"max_missing_dates": 0})})
    run = runs.publish(world, world.land(3, [row(3, 1)]))
    with pytest.raises(CheckFailed, match=rf"missing_dates: \[1 missing: {YESTERDAY} \(its 1 rows are deleted\)\]"):
        run.finish()


def test_deleted_keys_are_streamed_as_such(streaming_clients: Clients) -> None:
    """No load job fills staging, and a key that returns later is there again."""
    world = feed_that_deletes(streaming_clients, Engine.CDC, SqlForm.QUALIFY, KEEP)
    world.feed = world.feed.model_copy(update={"checks": NO_LIMITS})
    world.publish(world.land(1, [row(1, product) for product in range(5)]))
    for number, products in ((2, [0, 1, 2]), (3, [0, 1, 2, 4])):
        record = world.publish(world.land(number, [row(number, product) for product in products]), run_id=str(number))
        assert not load_jobs(world, record)
        assert world.query(f"SELECT product_id FROM .{world.feed.target} ORDER BY 1") == [(one,) for one in products]


def test_the_table_of_changes_has_the_deleted_rows(clients: Clients) -> None:
    world = feed_that_deletes(clients, Engine.SPARK, SqlForm.QUALIFY, DELETE)
    world.feed = world.feed.model_copy(update={"changes": True})
    world.publish(world.land(1, [row(1, 1), row(1, 2), row(1, 3, day=YESTERDAY)]))
    world.publish(world.land(2, [row(2, 1)]))
    operations.load_waiting_changes(world)
    columns = "change_type, date, product_id, old_row.product_id AS old, new_row IS NULL AS has_no_new_row"
    assert world.query(f"SELECT {columns} FROM .{world.feed.target}_changes ORDER BY product_id") == [
        ("deleted", TODAY, 2, 2, True),
        ("deleted", YESTERDAY, 3, 3, True),
    ]
