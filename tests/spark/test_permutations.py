"""Every order in which four snapshots, a correction and a repeat can arrive ends in the same table, with every plan."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.request import Plan
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS, oracle_table
from tests.permutations import steps

pytestmark = pytest.mark.spark

FIRST_DAY = date(2026, 3, 1)


@pytest.mark.parametrize("plan", [pytest.param(Plan.WINDOW, marks=pytest.mark.exhaustive), Plan.AUTO])
def test_every_order_of_arrival_ends_in_the_same_table(spark: SparkSession, tmp_path: Path, plan: Plan) -> None:
    area = SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, plan=plan)
    table = oracle_table(PRODUCTS)
    expected = OracleState(table)
    for step in steps(FIRST_DAY):
        area.publish(*[area.land(snapshot_id, rows) for snapshot_id, rows in step.items()])
        expected = expected.apply([OracleDelivery(n, rows) for n, rows in step.items()], FIRST_DAY)
        assert comparable(table, area.rows()) == expected.table_rows()
    by_date: dict[object, set[tuple[int, int, int]]] = {}
    for row in area.rows():
        by_date.setdefault(row["date"], set()).add((row["product_id"], row["attr_value"], row["update_id"]))
    assert len(by_date) == 24
    assert len({frozenset(rows) for rows in by_date.values()}) == 1
