"""Whole histories of publishes, made at random, against the oracle: every plan gives the same table and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import NESTED, oracle_table
from tests.shared.random_rows import FIRST_DAY, random_rows
from tests.spark.expected_changes import assert_changes
from tests.thoroughness import SEEDS, times

pytestmark = pytest.mark.spark

DAYS = 4
# A Spark run costs a second or two, so that an example is a whole history with hundreds of rows, and there are few.
FEW = settings(
    max_examples=times(2, 20),
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass(frozen=True)
class PublishCase:
    """Deliveries of one publish as (snapshot id, days left out), and how many days fell out of the retention."""

    deliveries: tuple[tuple[int, tuple[int, ...]], ...]
    expired_days: int


def backlogs(snapshot_ids: st.SearchStrategy[list[int]]) -> st.SearchStrategy[PublishCase]:
    missing = st.lists(st.integers(0, DAYS - 1), max_size=2, unique=True).map(tuple)
    deliveries = snapshot_ids.flatmap(lambda ids: st.tuples(*[st.tuples(st.just(n), missing) for n in sorted(ids)]))
    return st.builds(PublishCase, deliveries, st.sampled_from([0, 0, 1]))


ANY_ORDER = st.lists(backlogs(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True)), min_size=2, max_size=3)


def play(area: SparkJobFeed, history: Sequence[PublishCase], seed: int) -> tuple[list[Any], list[Any]]:
    """Publish the history step by step. Returns the table's rows and number of dropped rows after each step, and the
    oracle's; all other counts are compared on the way."""
    published: list[Any] = []
    expected_by_oracle: list[Any] = []
    random = Random(seed)
    table = oracle_table(area.table)
    expected = OracleState(table, last_changed=area.mode is UpdateIdMode.LAST_CHANGED)
    retention_day = FIRST_DAY
    for case in history:
        retention_day += timedelta(days=case.expired_days)
        landed, delivered = [], []
        for snapshot_id, missing_days in case.deliveries:
            rows = random_rows(random, snapshot_id, DAYS, missing_days)
            landed.append(area.land(snapshot_id, rows))
            delivered.append(OracleDelivery(snapshot_id, rows))
        candidate = area.publish(*landed, retention_day=retention_day)
        before, expected = expected, expected.apply(delivered, retention_day)
        assert candidate.manifest
        published.append((comparable(table, area.rows()), candidate.manifest.dropped_rows))
        expected_by_oracle.append((expected.table_rows(), expected.dropped))
        assert published[-1] == expected_by_oracle[-1]
        assert_counts(area, expected)
        assert_changes(area, candidate, before, expected, retention_day)
    return published, expected_by_oracle


def assert_counts(area: SparkJobFeed, expected: OracleState) -> None:
    assert area.manifest
    by_date: dict[date, int] = {}
    for row in expected.rows.values():
        by_date[row["day"]] = by_date.get(row["day"], 0) + 1
    assert {e.date: e.rows for e in area.manifest.dates} == by_date
    for day, counts in expected.counts.items():
        entry = area.entry(day)
        changed = counts.changed if entry.changed is None else entry.changed
        found = (entry.rows, entry.new_keys, changed, entry.survivors, entry.ties)
        assert found == (counts.rows, counts.new_keys, counts.changed, counts.survivors, counts.ties), day
        ids = [row["version"] for row in expected.rows.values() if row["day"] == day]
        assert (entry.min_update_id, entry.max_update_id) == (min(ids), max(ids))


@FEW
@given(history=ANY_ORDER, seed=SEEDS, date_folders=st.booleans())
def test_any_order_of_deliveries_gives_the_oracles_table_with_every_plan(
    spark: SparkSession, history: list[PublishCase], seed: int, date_folders: bool
) -> None:
    for plan in (Plan.WINDOW, Plan.AUTO):
        with TemporaryDirectory() as folder:
            area = SparkJobFeed(
                spark, folder, str(Path(folder) / "state"), NESTED, plan=plan, date_folders=date_folders
            )
            area.with_changes = plan is Plan.AUTO  # how the rows were written makes no difference to them
            published, expected = play(area, history, seed)
            assert len(published) == len(history)
            assert published == expected


@pytest.mark.exhaustive
@FEW
@given(history=ANY_ORDER, seed=SEEDS)
def test_last_changed_keeps_the_update_id_of_unchanged_rows_with_every_plan(
    spark: SparkSession, history: list[PublishCase], seed: int
) -> None:
    in_order, newest = [], 0
    for case in history:
        # The last id of a publish may come again in the next one: a re-delivery is in order.
        step = [(newest + n, missing) for n, (_, missing) in enumerate(case.deliveries, start=0 if newest else 1)]
        newest = step[-1][0]
        in_order.append(PublishCase(tuple(step), case.expired_days))
    for plan in (Plan.WINDOW, Plan.AUTO):
        with TemporaryDirectory() as folder:
            area = SparkJobFeed(
                spark, folder, str(Path(folder) / "state"), NESTED, UpdateIdMode.LAST_CHANGED, plan, date_folders=True
            )
            area.with_changes = plan is Plan.AUTO
            published, expected = play(area, in_order, seed)
            assert len(published) == len(history)
            assert published == expected
