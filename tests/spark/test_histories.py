"""Random histories of random tables, by every plan and with every limit: table, counts and changes are the oracle's.

A seed decides all of it: columns, mode, settings of the feed, plans, steps. Tables are so small that keys often go
missing, return and are erased.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.attempt import Plan
from dedup_spark.arrays import U64Array
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.sketch import row_words
from dedup_spark.sketch.sketch import Difference, Remainder, Sketch
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.against_oracle import JobAgainstOracle, Row
from tests.spark.product_rows import FIRST, row
from tests.spark.random_history import PUBLISHES, random_history
from tests.spark.small_limits import lower_limits
from tests.thoroughness import NIGHT, seeds

STREAMED_PLANS = (Plan.AUTO, Plan.REWRITE, Plan.ADOPT)


@pytest.mark.parametrize("seed", seeds(25))
def test_streamed_dates_are_the_oracles(tmp_path: Path, seed: int) -> None:
    """Without Spark: what would be left to its DataFrames fails."""
    random_history(Random(seed), tmp_path, None, STREAMED_PLANS).play(steps=14)


@pytest.mark.parametrize("seed", seeds(25))
def test_what_is_done_for_large_dates_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A few rows are compared and sorted at a time."""
    lower_limits(monkeypatch)
    random_history(Random(1000 + seed), tmp_path, None, STREAMED_PLANS).play(steps=8)


def untold(sketch: Sketch) -> Remainder:
    return Remainder(sketch, Difference(np.zeros((sketch.encoder.word_count, 0), np.uint64), np.zeros(0, np.int64)))


@pytest.mark.parametrize("seed", seeds(25))
def test_what_the_sketches_do_not_tell_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A third of the differences is not told, and rows that could be packed are hashes in every second history."""
    random, peel = Random(seed), Sketch.peel

    def sometimes(self: Sketch) -> Difference | Remainder:
        return peel(self) if random.random() < 2 / 3 else untold(self)

    monkeypatch.setattr(Sketch, "peel", sometimes)
    if seed % 2:
        monkeypatch.setattr(row_words, "MAX_WORDS", 0)
    random_history(Random(3000 + seed), tmp_path, None, STREAMED_PLANS).play(steps=8)


@pytest.mark.parametrize("seed", seeds(25))
def test_keys_with_equal_first_hashes_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Rows are hashes, and a key shares its first hash with every fourth other key. The second hash differs."""
    hashes = KeyHasher._hashes

    def seldom_differing(self: KeyHasher, *arguments: Any) -> list[U64Array]:
        first, *others = hashes(self, *arguments)
        return [first % np.uint64(4) + np.uint64(1), *others]  # a hash of zero hides NULL

    monkeypatch.setattr(KeyHasher, "_hashes", seldom_differing)
    monkeypatch.setattr(row_words, "MAX_WORDS", 0)
    random_history(Random(4000 + seed), tmp_path, None, [Plan.AUTO]).play(steps=12, weights=PUBLISHES)


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(60) if NIGHT else range(3))
def test_plans_of_spark_dataframes_and_all_others_are_the_oracles(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Each plan can use the files and fingerprints that any other plan wrote."""
    random_history(Random(2000 + seed), tmp_path, spark, list(Plan)).play(steps=4, weights=PUBLISHES)


def arrivals(number: int, order: Sequence[int]) -> list[int]:
    """Snapshots in this order. Somewhere later 2 comes again, corrected (as -2), and 3 as it was."""
    sequence = list(order)
    for snapshot, later in ((2, -2), (3, 3)):
        places = range(sequence.index(snapshot) + 1, len(sequence) + 1)
        sequence.insert(places[number % len(places)], later)
    return sequence


def delivered_rows(snapshot: int, day: date) -> list[Row]:
    """Some keys are in all snapshots, one in every second, one in a single one. The correction swaps one of them."""
    values = {1: 10 * snapshot, 5: 7, 10 + snapshot: snapshot} | ({} if snapshot % 2 else {2: 20 + snapshot})
    corrected = {1: 3, 5: 7, 2: 22, 22: 22}
    return [
        row(abs(snapshot), product, value, day) for product, value in (corrected if snapshot < 0 else values).items()
    ]


@pytest.mark.spark
def test_every_order_in_which_four_snapshots_and_a_correction_can_arrive_ends_in_the_same_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each of the 24 orders is that of one date. A publish applies the next delivery of every date's order."""
    job = JobAgainstOracle(SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS))
    orders = [arrivals(number, order) for number, order in enumerate(itertools.permutations((1, 2, 3, 4)))]
    for step in zip(*orders, strict=True):
        deliveries: dict[int, list[Row]] = {}
        for number, snapshot in enumerate(step):
            rows = delivered_rows(snapshot, FIRST + timedelta(days=number))
            deliveries.setdefault(abs(snapshot), []).extend(rows)
        job.play(*(deliveries[snapshot_id] for snapshot_id in sorted(deliveries)))
    by_date: dict[date, list[tuple[int, int, int]]] = {}
    for found in job.feed.rows():
        by_date.setdefault(found["date"], []).append((found["product_id"], found["attr_value"], found["update_id"]))
    assert len(by_date) == 24
    assert len({tuple(sorted(rows)) for rows in by_date.values()}) == 1
