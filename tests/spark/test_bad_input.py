"""Wrong deliveries: each is refused by name, the table stays as it is, and whatever is good is published beside it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import Candidate
from dedup_spark import storage
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.landing.delivery_validation import validate_deliveries
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.bad_deliveries import CASES
from tests.spark.delivered_files import deliver
from tests.spark.deliveries import FILE, TYPED, BadDelivery, good, with_row
from tests.spark.refusal_page import promised_messages

pytestmark = pytest.mark.spark

PROMISED = promised_messages()


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    """No Spark: most refusals cost none."""
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), TYPED)


def assert_says(candidate: Candidate, arrival: Arrival, case: BadDelivery) -> None:
    (reason,) = [r.reason for r in candidate.refused if r.delivery == arrival.delivery]
    missing = [text for text in case.said if text not in reason]
    assert not missing, f"{reason} lacks {missing}"
    assert any(message.search(reason) for message in PROMISED), f"docs/data-contract.md does not tell of: {reason}"
    assert f"deliver snapshot [{arrival.delivery.snapshot_id}] again, the marker last" in reason


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_delivery_is_refused_with_its_fault_and_a_good_one_beside_it_is_not(
    area: SparkJobFeed, case: BadDelivery
) -> None:
    bad, fine = deliver(area, 2, case.make(2)), deliver(area, 3, good(3))
    candidate = area.publish(bad)
    assert_says(candidate, bad, case)
    assert (candidate.manifest, candidate.file_list_uri, area.manifest) == (None, None, None)
    assert not [name for name in storage.list_objects(storage.join(area.state, "data")) if "/outcomes/" not in name]
    validated = validate_deliveries(area.request([bad, fine]), (bad, fine), None, FanOut(area.spark))
    assert [e.delivery for e in validated.applied] == [fine.delivery]
    assert [r.delivery for r in validated.refused] == [bad.delivery]


def test_every_bad_delivery_at_once_holds_no_good_one_back(spark: SparkSession, area: SparkJobFeed) -> None:
    """The table's rows are the parent's and those of the two good deliveries among all bad ones."""
    area.session = spark
    area.publish(deliver(area, 1, good(1)))
    versions = itertools.count(2)
    early = deliver(area, next(versions), good(2))
    bad = [(case, deliver(area, version, case.make(version))) for case, version in zip(CASES, versions, strict=False)]
    last = next(versions)
    late = deliver(area, last, good(last))
    candidate = area.publish(early, *[arrival for _, arrival in bad], late)
    for case, arrival in bad:
        assert_says(candidate, arrival, case)
    assert candidate.manifest
    assert candidate.manifest.applied == (early.delivery, late.delivery)
    assert sorted((r["code"], r["version"]) for r in area.rows()) == [(code, last) for code in range(3)]


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.name in ("damaged_pages", "null_in_key_code", "column_missing")],
    ids=lambda c: c.name,
)
def test_refusal_leaves_the_table_and_the_next_good_snapshot_is_published(
    spark: SparkSession, area: SparkJobFeed, case: BadDelivery
) -> None:
    area.session = spark
    area.publish(deliver(area, 1, good(1)))
    before, files = area.manifest, area.files()
    candidate = area.publish(deliver(area, 2, case.make(2)))
    assert candidate.manifest is None
    assert (area.manifest, area.files()) == (before, files)
    assert {r["version"] for r in area.rows()} == {1}
    area.publish(deliver(area, 3, good(3)))
    assert {r["version"] for r in area.rows()} == {3}


def test_objects_newer_than_the_marker_refuse_the_delivery_but_leftovers_do_not(area: SparkJobFeed) -> None:
    arrival = deliver(area, 2, good(2))
    late = replace(arrival, late_objects=(f"{arrival.folder}{FILE}",))
    candidate = area.publish(late)
    assert f"{FILE}] is newer than the marker, expected all files before it" in candidate.refused[0].reason
    leftovers = replace(
        arrival, late_objects=(f"{arrival.folder}_committed", f"{arrival.folder}_temporary/0/a.parquet")
    )
    request = area.request([leftovers])
    validated = validate_deliveries(request, (leftovers,), None, FanOut(area.spark))
    assert [e.delivery for e in validated.applied] == [arrival.delivery]


def test_rows_far_in_the_past_are_dropped_and_counted_not_refused(spark: SparkSession, area: SparkJobFeed) -> None:
    area.session, area.date_folders = spark, False
    old = with_row(day=date(1, 1, 1))(1)
    candidate = area.publish(deliver(area, 1, old))
    assert [(m.rows, m.dropped_rows) for m in candidate.deliveries] == [(3, 1)]
    assert sorted(r["code"] for r in area.rows()) == [0, 1]
