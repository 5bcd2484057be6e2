"""Erased keys: no plan brings their rows back, until a later snapshot after one that lacked them has them again."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.manifest import Candidate, KeyExample
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.fingerprints import stored
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.erased_keys import erase, record, run_erasure

pytestmark = pytest.mark.spark

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
STORE = 2072


PLANS = [Plan.AUTO, Plan.REWRITE, Plan.ANTIJOIN, Plan.WINDOW]
# Each plan once, each mode with a plan that streams and with one of Spark's DataFrames.
QUICK = {
    (Plan.AUTO, UpdateIdMode.LAST_SEEN),
    (Plan.REWRITE, UpdateIdMode.LAST_CHANGED),
    (Plan.ANTIJOIN, UpdateIdMode.LAST_SEEN),
    (Plan.WINDOW, UpdateIdMode.LAST_CHANGED),
}


@pytest.fixture(params=PLANS)
def area(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, plan=request.param)


@pytest.fixture
def adopting(tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)


def row(snapshot_id: int, product: int, value: int = 20, day: date = FIRST) -> dict[str, Any]:
    return {
        "date": day,
        "product_id": product,
        "store_id": STORE,
        "attribute_id": 1,
        "attr_value": value,
        "update_id": snapshot_id,
    }


def found(area: SparkJobFeed) -> list[tuple[date, int, int, int]]:
    return sorted((r["date"], r["product_id"], r["attr_value"], r["update_id"]) for r in area.rows())


def publish(area: SparkJobFeed, erasure: str, snapshot_id: int, rows: list[dict[str, Any]]) -> Candidate:
    candidate = area.run(replace(area.request([area.land(snapshot_id, rows)]), erasures=(erasure,)))
    area.commit(candidate)
    return candidate


def test_an_erasure_removes_the_rows_of_a_key_from_every_date(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 1), row(7, 2), row(7, 1, day=SECOND), row(7, 3, day=SECOND)]))
    before = adopting.data_uri()
    candidate = run_erasure(adopting, "product_id,store_id\n1,2072\n9,2072\n")
    adopting.commit(candidate)
    assert found(adopting) == [(FIRST, 2, 20, 7), (SECOND, 3, 20, 7)]
    assert adopting.data_uri() != before
    assert candidate.erased
    assert candidate.erased.rows == {FIRST: 1, SECOND: 1}
    assert candidate.erased.tombstones
    assert [key.dates for key in candidate.erased.tombstones.keys] == [(FIRST, SECOND), ()]
    assert adopting.manifest
    assert [d.snapshot_id for d in adopting.manifest.deliveries] == [7]
    assert adopting.manifest.applied == ()
    entry = adopting.entry(FIRST)
    assert (entry.rows, entry.new_keys, entry.survivors, entry.plan) == (1, 0, 0, "erased")
    assert entry.plan_reason == "the parent's rows; without 1 rows of erased keys"


def test_nothing_of_an_erased_row_is_in_the_new_files(adopting: SparkJobFeed) -> None:
    marker = 1_234_567_890_123_456_789
    adopting.publish(adopting.land(7, [row(7, marker), row(7, 2)]))
    erase(adopting, f"product_id\n{marker}\n")
    names = storage.list_objects(adopting.data_uri())
    assert not any(name.startswith(stored.FOLDER) for name in names)
    for name in names:
        with storage.open_input(storage.join(adopting.data_uri(), name)) as stream:
            assert marker.to_bytes(8, "little") not in bytes(stream.read()), name


def test_a_date_whose_rows_are_all_erased_is_gone(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 1), row(7, 2, day=SECOND)]))
    erase(adopting, "product_id\n1\n")
    assert found(adopting) == [(SECOND, 2, 20, 7)]
    assert adopting.manifest
    assert [entry.date for entry in adopting.manifest.dates] == [SECOND]


def test_keys_that_were_missing_are_counted_without_those_that_are_erased(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 1), row(7, 2), row(7, 3)]))
    adopting.publish(adopting.land(8, [row(8, 1)]))
    erasure = erase(adopting, "product_id\n1\n")
    assert (adopting.entry(FIRST).rows, adopting.entry(FIRST).survivors) == (2, 2)
    erase(adopting, "product_id\n2\n", erasure)
    assert (adopting.entry(FIRST).rows, adopting.entry(FIRST).survivors) == (1, 1)


@pytest.mark.parametrize(
    ("area", "mode"),
    [
        pytest.param(plan, mode, marks=() if (plan, mode) in QUICK else pytest.mark.exhaustive)
        for plan in PLANS
        for mode in UpdateIdMode
    ],
    indirect=["area"],
)
def test_no_plan_brings_an_erased_key_back(area: SparkJobFeed, mode: UpdateIdMode) -> None:
    area.mode = mode
    area.publish(area.land(7, [row(7, 1), row(7, 2), row(7, 3), row(7, 4, day=SECOND)]))
    erasure = erase(area, "product_id\n1\n")
    candidate = publish(area, erasure, 8, [row(8, 1, 99), row(8, 2, 21), row(8, 1, day=SECOND), row(8, 5, day=SECOND)])
    assert [r[:2] for r in found(area)] == [(FIRST, 2), (FIRST, 3), (SECOND, 4), (SECOND, 5)]
    assert found(area)[0] == (FIRST, 2, 21, 8)
    assert area.entry(FIRST).new_keys == 0
    assert area.entry(SECOND).new_keys == 1
    assert (area.entry(FIRST).survivors, area.entry(SECOND).survivors) == (1, 1)
    assert candidate.erased
    assert candidate.erased.rows == {FIRST: 1, SECOND: 1}
    assert len(candidate.erased.delivered) == 1
    assert [e.key for e in candidate.examples if "product_id=1," in e.key] == []
    assert not storage.list_objects(storage.join(area.state, f"data/{candidate.manifest.attempt}/outcomes"))  # type: ignore[union-attr]

    # The next publish builds on files without fingerprints of these dates.
    candidate = publish(area, erasure, 9, [row(9, 1), row(9, 2, 21), row(9, 3), row(9, 4, day=SECOND)])
    assert [r[:2] for r in found(area)] == [(FIRST, 2), (FIRST, 3), (SECOND, 4), (SECOND, 5)]
    assert (area.entry(FIRST).new_keys, area.entry(FIRST).survivors) == (0, 0)


def test_a_snapshot_without_the_key_says_so(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 1), row(7, 2)]))
    erasure = erase(adopting, "product_id\n1\n")
    candidate = publish(adopting, erasure, 8, [row(8, 2)])
    assert candidate.erased
    assert candidate.erased.delivered == ()
    assert candidate.erased.rows == {}


def test_a_row_of_two_erased_keys_counts_for_both(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 1), row(7, 2)]))
    by_product = erase(adopting, "product_id\n1\n")
    by_store = erase(adopting, f"product_id,store_id\n1,{STORE}\n", by_product)
    request = adopting.request([adopting.land(8, [row(8, 1), row(8, 2)])])
    candidate = adopting.run(replace(request, erasures=(by_product, by_store)))
    assert candidate.erased
    assert candidate.erased.rows == {FIRST: 1}
    assert len(candidate.erased.delivered) == 2


def test_a_replay_that_changes_nothing_does_not_say_which_keys_are_absent(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 2)]))
    erasure = erase(adopting, "product_id\n1\n")
    arrival = adopting.land(8, [row(8, 1), row(8, 2)])
    first = adopting.run(replace(adopting.request([arrival]), erasures=(erasure,)))
    adopting.commit(first)
    assert first.erased
    assert len(first.erased.delivered) == 1
    request = replace(adopting.request([]), deliveries=(adopting.requested_delivery(arrival),))
    again = adopting.run(replace(request, erasures=(erasure,)))
    assert again.manifest
    assert {entry.plan_reason for entry in again.manifest.dates} == {
        "every delivery asked for is part of the parent already: nothing was read"
    }
    assert again.erased is None


def test_only_snapshots_after_one_without_the_key_bring_it_back(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 1), row(7, 2)]))
    candidate = run_erasure(adopting, "product_id\n1\n")
    adopting.commit(candidate)
    assert candidate.erased
    assert candidate.erased.tombstones
    tombstones = candidate.erased.tombstones
    ended = replace(tombstones, keys=(replace(tombstones.keys[0], absent_since=9),))
    erasure = record(adopting, ended)
    publish(adopting, erasure, 8, [row(8, 1), row(8, 2)])
    assert found(adopting) == [(FIRST, 2, 20, 8)]
    publish(adopting, erasure, 10, [row(10, 1), row(10, 2)])
    assert found(adopting) == [(FIRST, 1, 20, 10), (FIRST, 2, 20, 10)]
    second = erase(adopting, "product_id\n1\n", erasure)
    candidate = adopting.run(
        replace(adopting.request([adopting.land(11, [row(11, 1), row(11, 2)])]), erasures=(erasure, second))
    )
    adopting.commit(candidate)
    assert found(adopting) == [(FIRST, 2, 20, 11)]


def test_examples_of_keys_lack_erased_ones(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 1), row(7, 2)]))
    erasure = erase(adopting, "product_id\n1\n")
    candidate = publish(adopting, erasure, 8, [row(8, 1), row(8, 2), row(8, 3)])
    assert candidate.examples == (
        KeyExample(FIRST, candidate.examples[0].difference, "product_id=3, store_id=2072, attribute_id=1"),
    )


def test_a_record_of_another_seed_is_refused_and_names_the_way_out(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 1), row(7, 2)]))
    erasure = erase(adopting, "product_id\n1\n", seed_id=5)
    with pytest.raises(ContractViolation, match="erase the same keys again"):
        publish(adopting, erasure, 8, [row(8, 1)])


def test_a_wrong_file_of_keys_is_refused_without_its_values(adopting: SparkJobFeed) -> None:
    adopting.publish(adopting.land(7, [row(7, 1), row(7, 2)]))
    with pytest.raises(ConfigurationError, match=r"Line \[3\] of the file of keys has no \[INT64\]") as caught:
        erase(adopting, "product_id\n1\nsecret\n")
    assert "secret" not in str(caught.value)
