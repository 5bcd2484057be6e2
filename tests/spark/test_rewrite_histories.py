"""Plan rewrite over random histories of snapshots, against the oracle: alone in both modes, and among all plans.

Snapshots differ little from each other, in keys and in values, so that most buckets agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dedup_clone.contract.manifest import DateOutcome
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.comparison import ranged_rows
from dedup_spark.output import sorted_files
from dedup_spark.plans.rewrite import date_merge
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import NESTED, oracle_table
from tests.shared.random_rows import FIRST_DAY
from tests.spark.generated_histories import DAYS, KINDS, REPEATED, Kind, land, spoil_fingerprints
from tests.thoroughness import SEEDS, times

pytestmark = pytest.mark.spark

MODES = tuple(UpdateIdMode)


@dataclass
class SlowProducer:
    """Adds and removes a few keys, changes a few values, and leaves some dates out or unchanged."""

    kind: Kind
    random: Random
    repeat: float = 0.0
    _rows: list[dict[int, dict[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        half = (self.kind.keys + 1) // 2
        keys = range(self.kind.keys)
        self._rows = [{key: self._values() for key in self.random.sample(keys, half)} for _ in range(DAYS)]

    def _values(self) -> dict[str, Any]:
        return self.kind.values(self.random)

    def snapshot(self, snapshot_id: int) -> list[dict[str, Any]]:
        random, rows = self.random, []
        for number, current in enumerate(self._rows):
            for _ in range(random.choice([0, 0, 1, 4])):
                current.pop(random.randrange(self.kind.keys), None)
                current[random.randrange(self.kind.keys)] = self._values()
            if random.random() < 0.15 and number:
                continue
            day = FIRST_DAY + timedelta(days=number)
            for key, values in current.items():
                rows.append(self._row(day, key, values, snapshot_id))
                if random.random() < self.repeat:
                    rows.append(self._row(day, key, self._values(), snapshot_id))
        random.shuffle(rows)
        return rows

    def _row(self, day: date, key: int, values: dict[str, Any], snapshot_id: int) -> dict[str, Any]:
        table = self.kind.table
        return {table.partition_column: day, **self.kind.key(key), **values, table.snapshot_id_column: snapshot_id}


@dataclass(frozen=True)
class Step:
    """One publish: the plan, how many deliveries are folded in, and whether the first is an old or known id."""

    plan: Plan
    deliveries: int
    is_late: bool


def steps(plans: list[Plan], counts: list[int]) -> st.SearchStrategy[list[Step]]:
    step = st.builds(Step, st.sampled_from(plans), st.sampled_from(counts), st.booleans())
    return st.lists(step, min_size=2, max_size=5)


def play(area: SparkJobFeed, producer: SlowProducer, history: list[Step]) -> list[str]:
    """Publishes step by step; table and counts equal the oracle's after each. Returns the plans of all dates."""
    table, random = oracle_table(area.table), producer.random
    expected = OracleState(table, last_changed=area.mode is UpdateIdMode.LAST_CHANGED)
    newest, plans = 0, []
    for step in history:
        ids = [newest + n for n in range(1, step.deliveries + 1)]
        if step.is_late and newest:
            # In mode last_changed only the newest id may come again.
            ids[0] = newest if area.mode is UpdateIdMode.LAST_CHANGED else random.randrange(1, newest + 1)
        newest = max(newest, *ids)
        landed, delivered = [], []
        for snapshot_id in ids:
            rows = producer.snapshot(snapshot_id)
            landed.append(land(area, random, snapshot_id, rows))
            delivered.append(OracleDelivery(snapshot_id, rows))
        spoil_fingerprints(area, random)
        area.plan = step.plan
        candidate = area.publish(*landed)
        assert candidate.refused == ()
        expected = expected.apply(delivered, FIRST_DAY)
        assert comparable(table, area.rows()) == expected.table_rows()
        assert_counts(area, expected)
        assert area.manifest
        plans += [entry.plan for entry in area.manifest.dates]
    return plans


def assert_counts(area: SparkJobFeed, expected: OracleState) -> None:
    for day, counts in expected.counts.items():
        entry = area.entry(day)
        found = (entry.rows, entry.new_keys, entry.changed, entry.survivors, entry.ties)
        assert found == (counts.rows, counts.new_keys, counts.changed, counts.survivors, counts.ties), day
        of_day = [row for row in expected.rows.values() if row[area.table.partition_column] == day]
        ids = [row[area.table.snapshot_id_column] for row in of_day]
        assert (entry.min_update_id, entry.max_update_id) == (min(ids), max(ids))


def settings_of(examples: int) -> settings:
    slow = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    count = times(examples, 10 * examples)
    return settings(max_examples=count, deadline=None, database=None, suppress_health_check=slow)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings_of(2)
@given(history=steps([Plan.REWRITE], [1]), seed=SEEDS, repeat=REPEATED)
def test_rewritten_dates_equal_the_oracles_table(
    kind: Kind, mode: UpdateIdMode, history: list[Step], seed: int, repeat: float
) -> None:
    """Without Spark: one delivery at a time is streamed."""
    with TemporaryDirectory() as folder:
        area = SparkJobFeed(None, folder, str(Path(folder) / "state"), kind.table, mode)
        outcomes = set(play(area, SlowProducer(kind, Random(seed), repeat), history))
        assert outcomes - {DateOutcome.COPIED_FORWARD} == {DateOutcome.REWRITE}


@settings_of(2)
@given(history=steps([Plan.AUTO, Plan.ADOPT, Plan.REWRITE], [1]), seed=SEEDS, repeat=REPEATED)
def test_last_changed_takes_rewrite_for_every_delivered_date(history: list[Step], seed: int, repeat: float) -> None:
    with TemporaryDirectory() as folder:
        area = SparkJobFeed(None, folder, str(Path(folder) / "state"), NESTED, UpdateIdMode.LAST_CHANGED)
        assert set(play(area, SlowProducer(KINDS["nested"], Random(seed), repeat), history)) <= {
            Plan.REWRITE,
            "carried",
        }


@pytest.mark.parametrize("mode", MODES)
@settings_of(1)
@given(history=steps([Plan.AUTO, Plan.REWRITE], [1]), seed=SEEDS, repeat=REPEATED)
def test_small_memory_and_small_files_change_nothing(
    mode: UpdateIdMode, history: list[Step], seed: int, repeat: float
) -> None:
    """A few rows are compared and sorted at a time, and every file is small."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(date_merge, "ROWS_PER_RANGE", 25)
        patch.setattr(ranged_rows, "_ROWS_IN_MEMORY", 9)
        patch.setattr(sorted_files, "_MAX_RUN_ROWS", 20)
        area = SparkJobFeed(None, folder, str(Path(folder) / "state"), NESTED, mode, file_bytes=1)
        play(area, SlowProducer(KINDS["nested"], Random(seed), repeat), history)
        assert all(file.rows < 120 for file in area.files().files if "rewritten" in file.path)


@pytest.mark.parametrize(
    "mode", [UpdateIdMode.LAST_SEEN, pytest.param(UpdateIdMode.LAST_CHANGED, marks=pytest.mark.exhaustive)]
)
@settings_of(2)
@given(history=steps(list(Plan), [1, 1, 2]), seed=SEEDS, repeat=st.sampled_from([0.0, 0.01]))
def test_all_plans_in_turn_equal_the_oracles_table(
    spark: SparkSession, mode: UpdateIdMode, history: list[Step], seed: int, repeat: float
) -> None:
    """Each plan can use the files and fingerprints that any other plan wrote."""
    with TemporaryDirectory() as folder:
        area = SparkJobFeed(spark, folder, str(Path(folder) / "state"), NESTED, mode)
        plans = play(area, SlowProducer(KINDS["nested"], Random(seed), repeat), history)
        assert len(plans) >= len(history)  # each publish had a date, and was compared
