"""Wrong deliveries: each is refused with its fault, the table stays as it is, and good ones beside it are published."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.contract.manifest import Candidate, DateEntry
from dedup_spark import job, storage
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.shared import damaged_parquet
from tests.shared.bad_deliveries import CASES, BadDelivery
from tests.shared.typed_deliveries import FILE, FOLDER, TYPED, good, parquet, table, with_row
from tests.spark.product_rows import FIRST, SECOND, row, rows


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    """No Spark: refusals cost none."""
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), TYPED)


def reason_of(candidate: Candidate, arrival: Arrival) -> str:
    (reason,) = [item.reason for item in candidate.refused if item.delivery == arrival.delivery]
    return reason


def assert_says(candidate: Candidate, arrival: Arrival, case: BadDelivery) -> None:
    reason = reason_of(candidate, arrival)
    assert [text for text in case.said if text not in reason] == [], reason
    assert f"deliver snapshot [{arrival.delivery.snapshot_id}] again, the marker last" in reason


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bad_delivery_is_refused_with_its_fault_and_a_good_one_beside_it_is_not(
    area: SparkJobFeed, case: BadDelivery
) -> None:
    bad, fine = area.deliver(2, case.make(2)), area.deliver(3, good(3))
    candidate = area.publish(bad)
    assert_says(candidate, bad, case)
    assert (candidate.manifest, candidate.file_list_uri, area.manifest) == (None, None, None)
    assert not storage.list_objects(storage.join(area.state, "data"))
    both = area.publish(bad, fine)
    assert [item.delivery for item in both.deliveries] == [fine.delivery]
    assert [item.delivery for item in both.refused] == [bad.delivery]


def test_an_encrypted_column_beside_a_readable_footer_is_refused_if_no_column_is_text(tmp_path: Path) -> None:
    """The range of such columns is read from the footer first, and pyarrow aborts the process on that of this one."""
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)
    landed = area.land(1, rows(1, 1, 2))
    uri = area.uri(landed.objects[0].name)
    content = damaged_parquet.encrypted(pq.read_table(uri, partitioning=None), tmp_path, plain_footer=True)
    arrival = area.deliver(1, {Path(landed.objects[0].name).relative_to(area.folder(1)).as_posix(): content})
    (refused,) = area.publish(arrival).refused
    assert "columns are encrypted" in refused.reason


def test_bad_deliveries_hold_no_good_one_back_and_leave_the_table(area: SparkJobFeed) -> None:
    """First a bad one alone, then all at once between two good ones."""
    area.publish(area.deliver(1, good(1)))
    before, files = area.manifest, area.files()
    area.publish(area.deliver(2, with_row(code=None)(2)))
    assert (area.manifest, area.files()) == (before, files)
    versions = itertools.count(3)
    early = area.deliver(next(versions), good(3))
    bad = [(case, area.deliver(version, case.make(version))) for case, version in zip(CASES, versions, strict=False)]
    last = next(versions)
    late = area.deliver(last, good(last))
    candidate = area.publish(early, *[arrival for _, arrival in bad], late)
    for case, arrival in bad:
        assert_says(candidate, arrival, case)
    assert candidate.manifest
    assert candidate.manifest.applied == (early.delivery, late.delivery)
    assert sorted((r["code"], r["version"]) for r in area.rows()) == [(code, last) for code in range(3)]


@pytest.mark.parametrize("seed", range(5))
def test_a_backlog_makes_what_its_good_deliveries_alone_make(tmp_path: Path, seed: int) -> None:
    """Three publishes of three deliveries, of which some have an invalid file before or after the valid ones."""
    random, days = Random(seed), [FIRST, SECOND, SECOND + timedelta(days=1)]
    mixed, good_alone = (
        SparkJobFeed(None, f"{tmp_path}/{name}/landing", f"{tmp_path}/{name}/state", PRODUCTS)
        for name in ("mixed", "good")
    )
    for feed in (mixed, good_alone):  # one seed makes fingerprints equal
        storage.write_text(storage.join(feed.state, "fingerprint_seed"), "5e" * 32)
    for first_id in (1, 4, 7):
        arrivals, good_arrivals = [], []
        for snapshot_id in range(first_id, first_id + 3):
            delivered = random.sample(days, random.randint(1, 3))
            keys = [(day, product) for day in delivered for product in random.sample(range(8), 5)]
            snapshot = [row(snapshot_id, product, random.randint(1, 2), day) for day, product in keys]
            arrivals.append(mixed.land(snapshot_id, snapshot))
            if random.random() < 0.5:
                name = f"date={random.choice(delivered)}/{random.choice('az')}.parquet"
                mixed.put(snapshot_id, name, b"PAR1 cut off")
                arrivals[-1] = mixed.arrive(snapshot_id)
            else:
                good_arrivals.append(good_alone.land(snapshot_id, snapshot))
        refused = mixed.publish(*arrivals).refused
        assert len(refused) == len(arrivals) - len(good_arrivals)
        if good_arrivals:
            good_alone.publish(*good_arrivals)

    def counted(feed: SparkJobFeed) -> list[DateEntry]:
        assert feed.manifest
        return [replace(entry, files_digest="", adopted_delivery=None) for entry in feed.manifest.dates]

    assert counted(mixed) == counted(good_alone)
    assert sorted(map(repr, mixed.rows())) == sorted(map(repr, good_alone.rows()))
    assert len(storage.list_objects(mixed.data_uri())) == len(storage.list_objects(good_alone.data_uri()))


def _replace(path: Path) -> None:
    path.write_bytes(good(1)[FILE] + b" ")


def _touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def _add(path: Path) -> None:
    path.with_name("part-1.parquet").write_bytes(good(1)[FILE])


LANDING_CHANGES = {
    "gone": (Path.unlink, "is gone"),
    "other_size": (_replace, "was replaced"),
    "other_generation": (_touch, "was replaced"),
    "appeared": (_add, "part-1.parquet] appeared after the inventory was taken"),
}


@pytest.mark.parametrize(("change", "said"), LANDING_CHANGES.values(), ids=LANDING_CHANGES)
def test_a_delivery_that_changed_since_it_was_noticed_is_refused(
    area: SparkJobFeed, change: Callable[[Path], None], said: str
) -> None:
    arrival = area.deliver(1, good(1))
    change(Path(area.uri(arrival.objects[0].name)))
    assert said in reason_of(area.publish(arrival), arrival)


def test_landing_that_changes_under_the_job_fails_it_without_a_candidate(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrival = area.deliver(1, good(1))
    path = Path(area.uri(arrival.objects[0].name))
    monkeypatch.setattr(job, "copy_forward", lambda *_: path.write_bytes(b"other"))
    attempt = area.attempt([arrival])
    with pytest.raises(DeliveryRefused, match=r"part-0\.parquet\] was replaced"):
        area.run(attempt)
    assert not storage.exists(storage.join(attempt.folder_uri, "candidate.json"))


def test_objects_newer_than_the_marker_refuse_the_delivery_but_leftovers_do_not(area: SparkJobFeed) -> None:
    arrival = area.deliver(2, good(2))
    late = replace(arrival, late_objects=(f"{arrival.folder}{FILE}",))
    assert f"{FILE}] is newer than the marker" in reason_of(area.publish(late), late)
    arrival = area.deliver(3, good(3))
    leftovers = (f"{arrival.folder}_committed", f"{arrival.folder}_temporary/0/a.parquet")
    candidate = area.publish(replace(arrival, late_objects=leftovers))
    assert [item.delivery for item in candidate.deliveries] == [arrival.delivery]


def test_the_first_problems_are_named_and_the_others_counted(area: SparkJobFeed) -> None:
    arrival = area.deliver(1, {f"{FOLDER}/part-{number}.parquet": b"" for number in range(8)})
    reason = reason_of(area.publish(arrival), arrival)
    assert reason.count("is empty") == 5
    assert "and 3 more" in reason


def test_statistics_in_a_footer_are_not_believed(area: SparkJobFeed) -> None:
    """Two row groups: the first alone would look right."""
    content = parquet(table(1, version=9), row_group_size=2, write_statistics=False)
    arrival = area.deliver(1, {FILE: content})
    assert "1 rows have another id" in reason_of(area.publish(arrival), arrival)


def test_a_complete_attempt_is_left_as_it_is(area: SparkJobFeed) -> None:
    attempt = area.attempt([area.deliver(1, {FILE: b""})])
    first = area.run(attempt)
    storage.write_text(attempt.arrival_uri(attempt.deliveries[0]), "not read again")
    assert area.run(attempt) == first
