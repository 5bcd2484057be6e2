"""Whole histories of publishes by each engine: table and manifest are the oracle's after every publish.

Snapshots wait together, arrive in any order and lack dates; days pass; checks stop publishes, and what they stop is
replayed at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Any

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.table import Absent
from dedup_clone.settings.check_settings import CheckSettings
from testkit import runs
from testkit.fake_dedup_job import Row
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import today
from testkit.generated_tables import GeneratedHistory, random_table
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import NESTED
from tests.contract.engines.nested_snapshots import snapshot
from tests.thoroughness import seeds

STRICT = CheckSettings(max_new_share=0, max_survivor_share=0, max_deleted_share=0, max_changed_share=0)
KEEP, DELETE = Absent
WAYS = [
    *((Engine.BIGQUERY, form) for form in SqlForm),
    (Engine.MERGE, SqlForm.QUALIFY),
    (Engine.SPARK, SqlForm.QUALIFY),
]
Clients = tuple[Storage, BigQuery]


class History:
    """A feed whose publishes are compared with the oracle. `rows_of` makes the rows of a snapshot by its id."""

    def __init__(self, world: FeedAgainstOracle, rows_of: Callable[[int], list[Row]]) -> None:
        self.world, self.rows_of = world, rows_of
        deletes = {
            "deletes_keys": world.table.absent_keys is DELETE,
            "deletes_dates": world.table.absent_dates is DELETE,
        }
        self.expected = OracleState(world.oracle_table, **deletes)
        self.delivered: dict[str, OracleDelivery] = {}
        self.waiting: list[str] = []
        self.held: list[str] = []
        self.days_passed = 0

    def land(self, snapshot_id: int) -> None:
        rows = self.rows_of(snapshot_id)
        name = self.world.land(snapshot_id, rows)
        self.delivered[name] = OracleDelivery(snapshot_id, rows)
        self.waiting = sorted([*self.waiting, name], key=lambda name: int(name.split("-")[0]))

    def let_a_day_pass(self) -> None:
        before = self.world.now
        self.world.now = lambda: before() + timedelta(days=1)
        self.days_passed += 1

    @property
    def oldest(self) -> date:
        days = self.world.feed.table.retention_days - 1
        return today() + timedelta(days=self.days_passed - days)

    def publish(self, run_id: str) -> None:
        """Publish what waits. What a check stops is held: of several deliveries all but the newest."""
        run = runs.publish(self.world, self.waiting[-1], run_id=run_id)
        try:
            run.until("check")
        except CheckFailed:
            assert not run.end()
            stopped = self.waiting[:-1] or self.waiting
            self.held += stopped
            self.waiting = [name for name in self.waiting if name not in stopped]
            return
        run.finish()
        self.apply(self.waiting)
        self.waiting = []

    def apply(self, names: list[str]) -> None:
        self.expected = self.expected.apply([self.delivered[name] for name in names], self.oldest)
        self.world.assert_equal(self.expected)

    def replay_held(self, names: list[str]) -> None:
        for name in names:
            self.world.publish(name, replay=True, reason="it is right", run_id=f"replay-{name}")
            self.apply([name])


def histories() -> list[Any]:
    """Seeds, each with an engine and its form in turn."""
    ways = [(seed, *WAYS[seed % len(WAYS)]) for seed in seeds(10)]
    return [pytest.param(*way, marks=[pytest.mark.spark] if way[1] is Engine.SPARK else []) for way in ways]


@pytest.mark.parametrize(("seed", "engine", "form"), histories())
def test_random_history(
    clients: Clients, request: pytest.FixtureRequest, seed: int, engine: Engine, form: SqlForm
) -> None:
    random = Random(seed)
    is_random = random.random() < 0.5
    table = random_table(random, floats_in_arrays=engine is Engine.SPARK) if is_random else NESTED
    keys, dates = random.choice([(KEEP, KEEP), (DELETE, KEEP), (DELETE, DELETE)])
    table = replace(table, absent_keys=keys, absent_dates=dates)
    world = FeedAgainstOracle(clients, feed_with_table(table, engine, form, date_folders=random.random() < 0.5))
    if engine is Engine.SPARK:
        world.dedup = request.getfixturevalue("real_dedup")
    lenient, strict = world.feed, world.feed.model_copy(update={"checks": STRICT})
    generated = GeneratedHistory(table, random, today() - timedelta(days=4), repeat=0.2) if is_random else None
    history = History(world, generated.snapshot if generated else lambda number: snapshot(random, number))
    ids = random.sample(range(1, 8), k=5)
    for number, landed in enumerate([ids[:1], ids[1:3], ids[3:]]):
        for snapshot_id in landed:
            history.land(snapshot_id)
        if random.random() < 0.3:
            history.let_a_day_pass()
        while history.waiting:
            world.feed = strict if number and random.random() < 0.5 else lenient
            history.publish(run_id=f"{number}-{len(history.held)}")
    world.feed = lenient
    history.replay_held(random.sample(history.held, k=len(history.held)))
    assert len(world.state.manifest()["deliveries"]) == len(history.delivered)
