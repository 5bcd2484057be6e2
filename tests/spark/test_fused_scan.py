"""Landed files validated and compared in one pass: decoded once, and forgotten where things turn out otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.delivery import Arrival
from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.landing.file_validation import FileValidator
from dedup_spark.plans.adopt.adopt_date import AdoptDate
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.product_rows import FIRST, SCHEMA, SECOND, found, row

pytestmark = pytest.mark.spark


@pytest.fixture
def second_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """URIs of files that are read apart from the first pass: validated alone, or for their keys."""
    reads: list[str] = []
    validate, batches = FileValidator.__call__, KeyReader.batches

    def validated(self: FileValidator, landed: Any) -> Any:
        reads.append(landed.uri)
        return validate(self, landed)

    def read(self: KeyReader, uri: str, **wanted: bool) -> Iterator[Any]:
        reads.append(uri)
        return batches(self, uri, **wanted)

    monkeypatch.setattr(FileValidator, "__call__", validated)
    monkeypatch.setattr(KeyReader, "batches", read)
    return reads


def rows(snapshot_id: int, *products: int, day: date = FIRST) -> list[dict[str, Any]]:
    return [row(snapshot_id, product, snapshot_id * 10, day=day) for product in products]


def landed_uris(area: SparkJobFeed, arrival: Arrival) -> set[str]:
    return {area.uri(landed.name) for landed in arrival.objects}


def data_objects(area: SparkJobFeed) -> set[str]:
    """Everything that the job has written into data folders, but for the records that a later run may go on from."""
    return {name for name in storage.list_objects(storage.join(area.state, "data")) if "/outcomes/" not in name}


def listed_and_named(area: SparkJobFeed) -> tuple[set[str], set[str]]:
    """Data files that lie in the live generation's folder, and those that its manifest names."""
    listed = {name for name in storage.list_objects(area.data_uri()) if name.endswith(".parquet")}
    return listed, {file.path for file in area.files().files}


def test_landed_files_are_decoded_once(area: SparkJobFeed, second_reads: list[str]) -> None:
    first = area.land(1, rows(1, *range(300)) + rows(1, 1, day=SECOND))
    second = area.land(2, rows(2, *range(5, 310)) + rows(2, 2, day=SECOND))
    area.publish(first)
    area.publish(second)
    assert not landed_uris(area, first) & set(second_reads)
    assert not landed_uris(area, second) & set(second_reads)
    assert (area.entry(FIRST).new_keys, area.entry(FIRST).survivors) == (10, 5)
    assert area.entry(SECOND).plan == "adopt"


def test_a_late_snapshot_is_decoded_once(area: SparkJobFeed, second_reads: list[str]) -> None:
    area.publish(area.land(3, rows(3, *range(300)) + rows(3, 1, day=SECOND)))
    late = area.land(2, rows(2, *range(5, 310)) + rows(2, 2, day=SECOND))
    area.publish(late)
    assert not landed_uris(area, late) & set(second_reads)
    assert [area.entry(day).plan for day in (FIRST, SECOND)] == ["rewrite", "rewrite"]
    assert [area.entry(day).new_keys for day in (FIRST, SECOND)] == [10, 1]
    listed, named = listed_and_named(area)
    assert listed == named


def test_dates_that_are_late_and_dates_that_are_not_are_decoded_in_the_same_pass(
    area: SparkJobFeed, second_reads: list[str]
) -> None:
    area.publish(area.land(1, rows(1, 1, 2) + rows(1, 1, 2, day=SECOND)))
    area.publish(area.land(3, rows(3, 1, 2, 3)))
    late = area.land(2, rows(2, 2, 4) + rows(2, 2, 4, day=SECOND))
    area.publish(late)
    assert not landed_uris(area, late) & set(second_reads)
    assert [area.entry(day).plan for day in (FIRST, SECOND)] == ["rewrite", "adopt"]
    first = [(r["product_id"], r["update_id"]) for r in area.rows() if r["date"] == FIRST]
    assert sorted(first) == [(1, 3), (2, 3), (3, 3), (4, 2)]


def test_files_without_date_folders_are_validated_first_and_adopted_then(
    area: SparkJobFeed, second_reads: list[str]
) -> None:
    area.date_folders = False
    arrival = area.land(1, rows(1, 1, 2))
    area.publish(arrival)
    assert landed_uris(area, arrival) <= set(second_reads)
    assert area.entry(FIRST).plan == "adopt"
    assert found(area) == [(1, 10, 1), (2, 10, 1)]


def test_what_was_found_with_a_delivery_that_is_refused_is_thrown_away(area: SparkJobFeed) -> None:
    """The bad delivery is the newest of the first date and wrong in the second: its survivors must not stay."""
    area.publish(area.land(1, rows(1, 1, 2, 3) + rows(1, 1, day=SECOND)))
    good = area.land(2, rows(2, 1, 2) + rows(2, 1, day=SECOND))
    bad = area.land(3, [*rows(3, 9), row(3, None, 1, day=SECOND)])  # type: ignore[arg-type]
    candidate = area.publish(good, bad)
    assert [refused.delivery for refused in candidate.refused] == [bad.delivery]
    assert found(area) == [(1, 20, 2), (1, 20, 2), (2, 20, 2), (3, 10, 1)]
    listed, named = listed_and_named(area)
    assert listed == named
    area.publish(area.land(4, rows(4, 1, 2)))
    assert "fingerprints of the parent stored" in area.entry(FIRST).plan_reason


def test_nothing_stays_of_a_delivery_that_is_refused_alone(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, 1, 2, 3)))
    before = data_objects(area)
    candidate = area.publish(area.land(2, [*rows(2, 1), row(2, None, 1, day=SECOND)]))  # type: ignore[arg-type]
    assert candidate.manifest is None
    assert data_objects(area) == before


def test_empty_files_of_a_date_take_no_part(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, 1, 2)))
    area.put(2, f"date={FIRST}/a.parquet", SCHEMA.empty_table())
    area.put(2, f"date={FIRST}/b.parquet", pa.Table.from_pylist(rows(2, 2, 3), schema=SCHEMA))
    area.put(2, f"date={SECOND}/a.parquet", SCHEMA.empty_table())
    area.publish(area.arrive(2))
    assert found(area) == [(1, 10, 1), (2, 20, 2), (3, 20, 2)]
    listed, named = listed_and_named(area)
    assert listed == named
    assert len(named) == 2


def test_a_comparison_that_fails_is_left_to_the_plan(area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the storage failed once while the date was scanned."""
    compare_and_write, failures = AdoptDate.compare_and_write, [OSError("the storage hangs up")]

    def failing(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return compare_and_write(*arguments)

    monkeypatch.setattr(AdoptDate, "compare_and_write", failing)
    area.publish(area.land(1, rows(1, 1, 2)))
    assert area.entry(FIRST).plan == "adopt"
    assert found(area) == [(1, 10, 1), (2, 10, 1)]


def test_survivors_are_written_from_rows_that_were_decoded_already(area: SparkJobFeed) -> None:
    """One read of the parent's file gives both, the keys that differ and the rows that stay."""
    area.publish(area.land(1, rows(1, *range(500))))
    (file,) = area.files().files
    held = storage.join(area.data_uri(), file.path)
    candidate = area.publish(area.land(2, rows(2, *range(3, 500))))
    (metrics,) = candidate.metrics.dates
    group = pq.read_metadata(held).row_group(0)
    stored = sum(group.column(number).total_compressed_size for number in range(group.num_columns))
    assert 0 < metrics.bytes_read <= stored
    assert found(area)[:3] == [(0, 10, 1), (1, 10, 1), (2, 10, 1)]


def test_a_date_that_has_grown_keeps_fingerprints_of_its_own_size(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, 1)))
    area.publish(area.land(2, rows(2, *range(20_000))))
    area.publish(area.land(3, rows(3, *range(1, 20_001))))
    assert (area.entry(FIRST).new_keys, area.entry(FIRST).survivors) == (1, 1)
    # Coarser ones would have been computed again, from all of the parent's rows.
    assert area.entry(FIRST).plan_reason.endswith("of 256 buckets, as 64-bit words; fingerprints of the parent stored")


@pytest.mark.parametrize("compare_values", [True, False])
def test_the_parents_rows_are_read_once_when_some_survive(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, compare_values: bool
) -> None:
    area.compare_values = compare_values
    area.publish(area.land(1, rows(1, *range(300))))
    (parent,) = (storage.join(area.data_uri(), file.path) for file in area.files().files)
    opened: list[str] = []
    open_input = storage.open_input
    monkeypatch.setattr(storage, "open_input", lambda uri: opened.append(uri) or open_input(uri))
    area.publish(area.land(2, rows(2, *range(5, 310))))
    assert area.entry(FIRST).survivors == 5
    assert opened.count(parent) == 1
