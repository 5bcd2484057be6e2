"""Plan adopt through whole histories, made at random, against the oracle. These need no Spark: nothing else is left.

Snapshots differ little from each other, as real ones do, so that most buckets agree and the others are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dedup_clone.contract.request import Plan
from dedup_spark.comparison import bucket_selection
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import NESTED, oracle_table
from tests.shared.random_rows import FIRST_DAY
from tests.spark.expected_changes import assert_changes
from tests.spark.generated_histories import (
    KINDS,
    REPEATED,
    Kind,
    Producer,
    land,
    spoil_fingerprints,
)
from tests.spark.small_limits import lower_limits
from tests.spark.split_dates import split_every_date
from tests.thoroughness import SEEDS, times

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Played:
    """What happened: `published` and `expected` are the tables' rows after each publish, theirs and the oracle's."""

    plans: set[str]
    published: list[Any]
    expected: list[Any]


def play(area: SparkJobFeed, producer: Producer, publishes: list[int], *, late: bool = False) -> Played:
    """`publishes` are the numbers of deliveries folded in each. Counts and ties are compared on the way."""
    table, random = oracle_table(area.table), producer.random
    expected, newest, played = OracleState(table), 0, Played(set(), [], [])
    for count in publishes:
        ids = [newest + n for n in range(1, count + 1)]
        newest = ids[-1]
        if late and newest > 3 and random.random() < 0.4:
            ids[0] = random.randrange(1, newest)
        landed, delivered = [], []
        for snapshot_id in sorted(set(ids)):
            rows = producer.snapshot(snapshot_id)
            landed.append(land(area, random, snapshot_id, rows))
            delivered.append(OracleDelivery(snapshot_id, rows))
        spoil_fingerprints(area, random)
        candidate = area.publish(*landed)
        before, expected = expected, expected.apply(delivered, FIRST_DAY)
        played.published.append(comparable(table, area.rows()))
        played.expected.append(expected.table_rows())
        assert played.published[-1] == played.expected[-1]
        assert_counts(area, expected)
        assert_changes(area, candidate, before, expected, FIRST_DAY)
        for number, metrics in enumerate(candidate.deliveries):
            rows = delivered[number].rows
            keys = {table.key(row) for row in rows}
            assert metrics.ties == len(rows) - len(keys)
        assert area.manifest
        played.plans.update(entry.plan for entry in area.manifest.dates)
    return played


def assert_counts(area: SparkJobFeed, expected: OracleState) -> None:
    for day, counts in expected.counts.items():
        entry = area.entry(day)
        changed = counts.changed if entry.changed is None else entry.changed
        found = (entry.rows, entry.new_keys, changed, entry.survivors, entry.ties)
        assert found == (counts.rows, counts.new_keys, counts.changed, counts.survivors, counts.ties), day
        ids = [
            r[area.table.snapshot_id_column] for r in expected.rows.values() if r[area.table.partition_column] == day
        ]
        assert (entry.min_update_id, entry.max_update_id) == (min(ids), max(ids))
        assert sum(file.max_update_id < entry.max_update_id for file in area.files().files if file.date == day) <= 8


def settings_of(examples: int) -> settings:
    slow = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(
        max_examples=times(examples, 10 * examples), deadline=None, database=None, suppress_health_check=slow
    )


PUBLISHES = st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=2, max_size=5)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=pytest.mark.exhaustive if name == "every_key" else ())
        for name, kind in KINDS.items()
    ],
)
@settings_of(2)
@given(
    publishes=PUBLISHES,
    seed=SEEDS,
    exact=st.sampled_from([True, False, False]),
    values=st.sampled_from([True, True, False]),
    sampled=st.sampled_from([0, 0, 64]),
    repeat=REPEATED,
)
def test_snapshots_in_order_are_adopted_and_give_the_oracles_table(
    kind: Kind, publishes: list[int], seed: int, exact: bool, values: bool, sampled: int, repeat: float
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_selection, "_EXAMPLE_BUCKETS", sampled)
        area = SparkJobFeed(None, folder, str(Path(folder) / "state"), kind.table, plan=Plan.ADOPT, exact=exact)
        area.compare_values, area.with_changes = values, not exact
        played = play(area, Producer(kind, seed, repeat), publishes)
        assert played.plans <= {"adopt", "carried"}
        assert played.published == played.expected
        assert area.manifest
        assert not values or None not in [entry.changed for entry in area.manifest.dates]


@pytest.mark.exhaustive
@pytest.mark.parametrize("parts", [0, 2], ids=["threads", "parts"])
@settings_of(2)
@given(publishes=PUBLISHES, seed=SEEDS, repeat=REPEATED)
def test_small_memory_and_several_threads_or_tasks_change_nothing(
    parts: int, publishes: list[int], seed: int, repeat: float
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        lower_limits(patch)
        if parts:
            split_every_date(patch, parts)
        area = SparkJobFeed(None, folder, str(Path(folder) / "state"), NESTED, plan=Plan.ADOPT)
        area.with_changes = True
        played = play(area, Producer(KINDS["nested"], seed, repeat), publishes)
        assert len(played.published) == len(publishes)
        assert played.published == played.expected


@settings_of(2)
@given(publishes=PUBLISHES, seed=SEEDS)
def test_repeated_keys_and_late_snapshots_give_the_oracles_table(
    spark: SparkSession, publishes: list[int], seed: int
) -> None:
    with TemporaryDirectory() as folder:
        area = SparkJobFeed(spark, folder, str(Path(folder) / "state"), NESTED, with_changes=True)
        played = play(area, Producer(KINDS["nested"], seed, repeat=0.01), publishes, late=True)
        assert len(played.published) == len(publishes)
        assert played.published == played.expected
