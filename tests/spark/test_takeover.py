"""An existing table's export as the first generation: validated like a delivery, but for the update ids of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.request import Duplicates, Plan
from dedup_clone.contract.table import UpdateIdMode
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.product_rows import FIRST, SECOND, found, row

pytestmark = pytest.mark.spark

EXPORT = 2**63 - 2


def take_over(area: SparkJobFeed, rows: list[dict[str, Any]], duplicates: Duplicates = Duplicates.REFUSE) -> Candidate:
    request = area.request([area.land(EXPORT, rows)])
    candidate = area.run(replace(request, takes_over=duplicates, plan=Plan.REWRITE))
    if candidate.manifest:
        area.commit(candidate)
    return candidate


MIXED = [row(3, 1, 30), row(1, 2, 20), row(2, 3, 10), row(2, 4, 40, day=SECOND)]


@pytest.mark.parametrize("mode", UpdateIdMode)
def test_rows_keep_their_update_ids_and_no_delivery_is_named(area: SparkJobFeed, mode: UpdateIdMode) -> None:
    area.mode = mode
    candidate = take_over(area, MIXED)
    manifest = candidate.manifest
    assert manifest
    assert found(area) == sorted((r["product_id"], r["attr_value"], r["update_id"]) for r in MIXED)
    assert (manifest.deliveries, manifest.applied, candidate.deliveries, candidate.refused) == ((), (), (), ())
    assert manifest.snapshot_id == 3
    assert [(e.rows, e.ties, e.min_update_id, e.max_update_id) for e in manifest.dates] == [(3, 0, 1, 3), (1, 0, 2, 2)]


def test_only_fingerprints_of_rows_with_one_update_id_are_carried_on(area: SparkJobFeed) -> None:
    take_over(area, MIXED)
    assert area.entry(FIRST).key_fingerprint is None
    assert area.entry(SECOND).key_fingerprint is not None
    area.publish(area.land(4, [row(4, 1, 30), row(4, 2, 21), row(4, 3, 9), row(4, 4, 41, day=SECOND)]))
    assert "computed" in area.entry(FIRST).plan_reason
    assert "stored" in area.entry(SECOND).plan_reason


@pytest.mark.parametrize("mode", UpdateIdMode)
def test_the_next_snapshot_is_applied_on_top(with_spark: SparkJobFeed, mode: UpdateIdMode) -> None:
    with_spark.mode = mode
    take_over(with_spark, MIXED)
    with_spark.publish(with_spark.land(4, [row(4, 1, 30), row(4, 2, 21), row(4, 5, 5), row(4, 4, 40, day=SECOND)]))
    assert with_spark.manifest
    first, fourth = (3, 2) if mode is UpdateIdMode.LAST_CHANGED else (4, 4)
    assert found(with_spark) == [(1, 30, first), (2, 21, 4), (3, 10, 2), (4, 40, fourth), (5, 5, 4)]
    entry = with_spark.entry(FIRST)
    assert (entry.new_keys, entry.survivors) == (1, 1)
    assert [d.snapshot_id for d in with_spark.manifest.deliveries] == [4]


def test_doubled_keys_are_refused_with_counts_and_dates_and_no_key(with_spark: SparkJobFeed) -> None:
    candidate = take_over(with_spark, [*MIXED, row(1, 1, 500), row(3, 2, 7), row(2, 4, 8, day=SECOND)])
    assert candidate.manifest is None
    (refused,) = candidate.refused
    assert (
        "it has [3] surplus rows of keys (date, product_id, store_id, attribute_id) that occur more than once"
        in refused.reason
    )
    assert f"on [2] dates ({FIRST}: 2, {SECOND}: 1)" in refused.reason
    assert "product_id=" not in refused.reason
    assert "duplicates [keep_latest]" in refused.reason


def test_of_doubled_keys_the_highest_update_id_stays_then_the_greatest_values(with_spark: SparkJobFeed) -> None:
    doubled = [row(1, 1, 500), row(3, 2, 7), row(2, 3, 9), row(2, 3, 11)]
    candidate = take_over(with_spark, [*MIXED, *doubled], Duplicates.KEEP_LATEST)
    assert candidate.manifest
    assert found(with_spark)[:3] == [(1, 30, 3), (2, 7, 3), (3, 11, 2)]
    assert [(e.rows, e.ties) for e in candidate.manifest.dates] == [(3, 4), (1, 0)]


def test_null_keys_and_update_ids_are_refused_in_words_of_the_table(area: SparkJobFeed) -> None:
    bad = [{**row(1, 1, 1), "store_id": None}, {**row(1, 2, 2), "update_id": None}]
    (refused,) = take_over(area, [*MIXED, *bad]).refused
    assert "column [store_id]: 1 rows are [NULL]" in refused.reason
    assert "column [update_id]: 1 rows are [NULL]" in refused.reason
    assert "trigger the DAG again" in refused.reason
    assert str(EXPORT) not in refused.reason.replace(f"snapshot_id={EXPORT}", "")
