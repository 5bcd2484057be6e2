"""Columns added to a feed between publishes: the table is the oracle's, whatever the files of which age lack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import Column, ColumnMode, TableContract, UpdateIdMode
from dedup_spark.column_types import arrow_schema
from testkit.oracle import OracleDelivery, OracleState, comparable
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import NESTED, oracle_table
from tests.shared.random_rows import FIRST_DAY, random_rows

pytestmark = pytest.mark.spark

DAYS = 4
SINCE = {"info.size": 4, "parts.size": 4, "size": 4, "sizes": 4}
SIZE = Column("size", "INT64")
SIZES = Column("sizes", "STRING", ColumnMode.REPEATED)


def wider(column: Column) -> Column:
    return replace(column, fields=(*column.fields, SIZE)) if column.fields else column


WIDER = replace(NESTED, columns=(*map(wider, NESTED.columns), SIZE, SIZES))


class GrowingFeed(SparkJobFeed):
    """A feed of which snapshots below 4 may lack the new columns."""

    def request(self, *args: Any, **options: Any) -> DedupRequest:
        return replace(super().request(*args, **options), since=SINCE if self.table is WIDER else {})


def feed(
    folder: Path, session: SparkSession | None = None, mode: UpdateIdMode = UpdateIdMode.LAST_SEEN, **options: Any
) -> GrowingFeed:
    return GrowingFeed(session, str(folder / "landing"), str(folder / "state"), NESTED, mode, **options)


def with_new_columns(random: Random, rows: Sequence[dict[str, Any]], *, have_values: bool) -> list[dict[str, Any]]:
    """The rows with values in the new columns, or as readers see rows without them."""

    def size() -> int | None:
        return random.choice([None, 1, 2]) if have_values else None

    return [
        {
            **row,
            "info": row["info"] and {**row["info"], "size": size()},
            "parts": [{**part, "size": size()} for part in row["parts"]],
            "size": size(),
            "sizes": ["s"] if size() else [],
        }
        for row in rows
    ]


def land(area: GrowingFeed, snapshot_id: int, rows: list[dict[str, Any]], table: TableContract) -> Arrival:
    return area.land(snapshot_id, rows, schema=arrow_schema(table.columns))


def play(area: GrowingFeed, seed: int) -> int:
    """Two publishes before the change, one of a snapshot without the columns after it, then ones with them.

    Each leaves out another date, so that dates are carried and rows survive across the change. Returns how many times
    the table was compared with the oracle's.
    """
    compared = 0
    random = Random(seed)
    expected = OracleState(oracle_table(WIDER), last_changed=area.mode is UpdateIdMode.LAST_CHANGED)
    for snapshot_id in range(1, 6):
        files_table = NESTED if snapshot_id <= 3 else WIDER
        area.table = NESTED if snapshot_id <= 2 else WIDER
        plain = random_rows(random, snapshot_id, DAYS, [snapshot_id % DAYS])
        rows = with_new_columns(random, plain, have_values=files_table is WIDER)
        arrival = land(area, snapshot_id, plain if files_table is NESTED else rows, files_table)
        candidate = area.publish(arrival)
        assert not candidate.refused
        expected = expected.apply([OracleDelivery(snapshot_id, rows)], FIRST_DAY - timedelta(days=1))
        if area.table is WIDER:
            assert comparable(oracle_table(WIDER), area.rows()) == expected.table_rows()
            compared += 1
    return compared


@pytest.mark.parametrize("mode", list(UpdateIdMode))
def test_files_with_and_without_new_columns_become_one_table(tmp_path: Path, mode: UpdateIdMode) -> None:
    for seed in (0, 5):
        assert play(feed(tmp_path / str(seed), mode=mode), seed) == 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("plan", [Plan.WINDOW, Plan.REWRITE])
def test_every_plan_fills_new_columns_with_null(spark: SparkSession, tmp_path: Path, plan: Plan) -> None:
    assert play(feed(tmp_path, spark, plan=plan), 1) == 3


@pytest.mark.parametrize("plan", [Plan.AUTO, Plan.WINDOW])
def test_a_late_snapshot_without_the_columns_fills_what_newer_ones_lacked(
    spark: SparkSession, tmp_path: Path, plan: Plan
) -> None:
    """The last publish, by this plan, reads files of both ages."""
    area, random = feed(tmp_path, spark if plan is Plan.WINDOW else None), Random(5)
    expected = OracleState(oracle_table(WIDER))
    for snapshot_id in (2, 4, 3):
        area.table, files_table = (NESTED if snapshot_id == 2 else WIDER), (WIDER if snapshot_id == 4 else NESTED)
        plain = random_rows(random, snapshot_id, DAYS, [snapshot_id % DAYS])
        rows = with_new_columns(random, plain, have_values=files_table is WIDER)
        area.plan = plan if snapshot_id == 3 else Plan.AUTO
        area.publish(land(area, snapshot_id, plain if files_table is NESTED else rows, files_table))
        expected = expected.apply([OracleDelivery(snapshot_id, rows)], FIRST_DAY - timedelta(days=1))
    assert comparable(oracle_table(WIDER), area.rows()) == expected.table_rows()


def test_a_snapshot_that_must_have_the_columns_is_refused_without_them(tmp_path: Path) -> None:
    area = feed(tmp_path)
    area.table = WIDER
    (refused,) = area.publish(land(area, 4, random_rows(Random(1), 4, DAYS, []), NESTED)).refused
    assert "column [size] is missing, expected [INT64]" in refused.reason
    assert "column [info] has fields ['weight', 'label'], expected ['weight', 'label', 'size']" in refused.reason


def test_dates_that_no_delivery_has_are_carried_with_all_columns(tmp_path: Path) -> None:
    area = feed(tmp_path)
    rows = random_rows(Random(5), 1, DAYS, [])
    area.publish(land(area, 1, rows, NESTED))
    before = {file.date: file.path for file in area.files().files}
    kept = max(row["day"] for row in rows)
    area.table = WIDER
    second = [{**row, "version": 2} for row in rows if row["day"] != kept]
    area.publish(land(area, 2, second, NESTED))
    assert area.entry(kept).plan == "carried"
    assert [file.path != before[kept] for file in area.files().files if file.date == kept] == [True]
    assert [row["size"] for row in area.rows() if row["day"] == kept] == [None] * area.entry(kept).rows


def test_a_dropped_column_is_refused_in_words(tmp_path: Path) -> None:
    area = feed(tmp_path)
    area.publish(land(area, 1, random_rows(Random(1), 1, DAYS, []), NESTED))
    area.table = replace(NESTED, columns=tuple(c for c in NESTED.columns if c.name != "note"))
    with pytest.raises(ContractViolation, match=re.escape("column [note] is no longer declared")):
        area.publish(area.land(2, [], schema=pa.schema([])))
