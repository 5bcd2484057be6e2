"""Takeovers of a table, erasures of keys, and the recorded changes, in the smallest histories that show each rule.

Random histories compare all three with the oracle (test_histories.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dedup_clone.contract.attempt import Duplicates, Plan
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.table import Absent, UpdateIdMode
from dedup_spark import storage
from dedup_spark.sketch import stored
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from testkit.value_search import contains
from tests.spark.erased_keys import erase, record, run_erasure
from tests.spark.product_rows import FIRST, SECOND, found, row, rows

EXPORT = 2**63 - 2
MIXED = [row(3, 1, 30), row(1, 2, 20), row(2, 3, 10), row(2, 4, 40, day=SECOND)]
LAST_SEEN, LAST_CHANGED = UpdateIdMode.LAST_SEEN, UpdateIdMode.LAST_CHANGED


def take_over(area: SparkJobFeed, rows: list[dict[str, Any]], duplicates: Duplicates = Duplicates.REFUSE) -> Candidate:
    attempt = area.attempt([area.land(EXPORT, rows)])
    candidate = area.run(replace(attempt, takes_over=duplicates, plan=Plan.REWRITE))
    if candidate.manifest:
        area.commit(candidate)
    return candidate


@pytest.mark.parametrize("mode", list(UpdateIdMode))
def test_rows_of_a_takeover_keep_their_update_ids_and_no_delivery_is_named(
    area: SparkJobFeed, mode: UpdateIdMode
) -> None:
    area.mode = mode
    candidate = take_over(area, MIXED)
    manifest = candidate.manifest
    assert manifest
    assert found(area) == sorted((r["product_id"], r["attr_value"], r["update_id"]) for r in MIXED)
    assert (manifest.deliveries, manifest.applied, candidate.deliveries, candidate.refused) == ((), (), (), ())
    assert manifest.snapshot_id == 3
    assert [(e.rows, e.ties, e.min_update_id, e.max_update_id) for e in manifest.dates] == [(3, 0, 1, 3), (1, 0, 2, 2)]
    area.publish(area.land(4, [row(4, 1, 30), row(4, 2, 21), row(4, 5, 5), row(4, 4, 40, day=SECOND)]))
    first, fourth = (3, 2) if mode is LAST_CHANGED else (4, 4)
    assert found(area) == [(1, 30, first), (2, 21, 4), (3, 10, 2), (4, 40, fourth), (5, 5, 4)]


def test_only_fingerprints_of_rows_with_one_update_id_are_carried_on(area: SparkJobFeed) -> None:
    take_over(area, MIXED)
    area.publish(area.land(4, [row(4, 1, 30), row(4, 2, 21), row(4, 3, 9), row(4, 4, 41, day=SECOND)]))
    assert "computed" in area.entry(FIRST).plan_reason
    assert "stored" in area.entry(SECOND).plan_reason


def test_doubled_keys_are_refused_with_counts_and_dates_and_no_key(area: SparkJobFeed) -> None:
    candidate = take_over(area, [*MIXED, row(1, 1, 500), row(3, 2, 7), row(2, 4, 8, day=SECOND)])
    assert candidate.manifest is None
    (refused,) = candidate.refused
    assert "it has [3] surplus rows" in refused.reason
    assert f"on [2] dates ({FIRST}: 2, {SECOND}: 1)" in refused.reason
    assert "product_id=" not in refused.reason


def test_of_doubled_keys_the_highest_update_id_stays_then_the_greatest_values(area: SparkJobFeed) -> None:
    doubled = [row(1, 1, 500), row(3, 2, 7), row(2, 3, 9), row(2, 3, 11)]
    candidate = take_over(area, [*MIXED, *doubled], Duplicates.KEEP_LATEST)
    assert candidate.manifest
    assert found(area)[:3] == [(1, 30, 3), (2, 7, 3), (3, 11, 2)]
    assert [(e.rows, e.ties) for e in candidate.manifest.dates] == [(3, 4), (1, 0)]


def test_null_keys_and_update_ids_are_refused_in_words_of_the_table(area: SparkJobFeed) -> None:
    bad = [{**row(1, 1, 1), "store_id": None}, {**row(1, 2, 2), "update_id": None}]
    (refused,) = take_over(area, [*MIXED, *bad]).refused
    assert "column [store_id]: 1 rows are [NULL]" in refused.reason
    assert "column [update_id]: 1 rows are [NULL]" in refused.reason
    assert str(EXPORT) not in refused.reason.replace(f"snapshot_id={EXPORT}", "")


def publish(area: SparkJobFeed, snapshot_id: int, rows: list[dict[str, Any]], *erasures: str) -> Candidate:
    candidate = area.run(replace(area.attempt([area.land(snapshot_id, rows)]), erasures=erasures))
    area.commit(candidate)
    return candidate


def test_an_erasure_removes_the_rows_of_a_key_from_every_date_and_file(area: SparkJobFeed) -> None:
    marker = 1_234_567_890_123_456_789
    area.publish(area.land(7, rows(7, marker, 2) + rows(7, marker, 3, day=SECOND)))
    before = area.data_uri()
    candidate = run_erasure(area, f"product_id,store_id\n{marker},2072\n9,2072\n")
    area.commit(candidate)
    assert found(area) == [(2, 70, 7), (3, 70, 7)]
    assert area.data_uri() != before
    assert candidate.erased
    assert candidate.erased.rows == {FIRST: 1, SECOND: 1}
    assert candidate.erased.tombstones
    assert [key.dates for key in candidate.erased.tombstones.keys] == [(FIRST, SECOND), ()]
    assert area.manifest
    assert [d.snapshot_id for d in area.manifest.deliveries] == [7]
    assert area.manifest.applied == ()
    entry = area.entry(FIRST)
    assert (entry.rows, entry.new_keys, entry.survivors, entry.plan) == (1, 0, 0, "erased")
    names = storage.list_objects(area.data_uri())
    assert not any(name.startswith(stored.FOLDER) for name in names)
    for name in names:
        with storage.open_input(storage.join(area.data_uri(), name)) as stream:
            assert not contains(bytes(stream.read()), marker), name


def test_a_date_whose_rows_are_all_erased_is_gone(area: SparkJobFeed) -> None:
    area.publish(area.land(7, rows(7, 1) + rows(7, 2, day=SECOND)))
    erase(area, "product_id\n1\n")
    assert found(area) == [(2, 70, 7)]
    assert area.manifest
    assert [entry.date for entry in area.manifest.dates] == [SECOND]


def test_an_older_snapshot_does_not_fill_a_date_whose_rows_are_all_erased(area: SparkJobFeed) -> None:
    """Its rows would be of keys that the newest snapshot of the date lacks, and such rows are deleted."""
    area.table, area.with_changes = replace(PRODUCTS, absent_keys=Absent.DELETE), True
    area.publish(area.land(7, rows(7, 1, 2) + rows(7, 3, day=SECOND)))
    area.publish(area.land(8, rows(8, 1) + rows(8, 3, day=SECOND)))
    erasure = erase(area, "product_id\n1\n")
    publish(area, 6, rows(6, 1, 2), erasure)
    assert found(area) == [(3, 80, 8)]
    publish(area, 9, rows(9, 1, 4), erasure)
    assert found(area) == [(3, 80, 8), (4, 90, 9)]
    assert (area.entry(FIRST).new_keys, area.entry(FIRST).deleted) == (1, 0)
    candidate = publish(area, 10, rows(10, 1), erasure)
    assert [(change["change_type"], change["product_id"]) for change in area.changes(candidate)] == [("deleted", 4)]
    assert candidate.manifest.deleted_dates == {}
    publish(area, 9, rows(9, 1, 4), erasure)
    assert found(area) == [(3, 80, 8)]


def test_nor_does_it_after_a_rebuild(area: SparkJobFeed) -> None:
    area.table = replace(PRODUCTS, absent_keys=Absent.DELETE)
    area.publish(area.land(7, rows(7, 1, 2) + rows(7, 3, day=SECOND)))
    area.publish(area.land(8, rows(8, 1) + rows(8, 3, day=SECOND)))
    erasure = erase(area, "product_id\n1\n")
    assert area.manifest
    newest = {entry.date: entry.newest_snapshot or 0 for entry in area.manifest.dates}
    attempt = area.attempt([area.land(EXPORT, rows(8, 3, day=SECOND))])
    rebuild = replace(attempt, parent_files=None, takes_over=Duplicates.REFUSE, newest_snapshots=newest)
    area.commit(area.run(replace(rebuild, plan=Plan.REWRITE)))
    publish(area, 6, rows(6, 1, 2), erasure)
    assert found(area) == [(3, 80, 8)]


def test_keys_that_were_missing_are_counted_without_those_that_are_erased(area: SparkJobFeed) -> None:
    area.publish(area.land(7, rows(7, 1, 2, 3)))
    area.publish(area.land(8, rows(8, 1)))
    erasure = erase(area, "product_id\n1\n")
    assert (area.entry(FIRST).rows, area.entry(FIRST).survivors) == (2, 2)
    erase(area, "product_id\n2\n", erasure)
    assert (area.entry(FIRST).rows, area.entry(FIRST).survivors) == (1, 1)


def assert_erased_key_stays_away(area: SparkJobFeed) -> None:
    area.publish(area.land(7, rows(7, 1, 2, 3) + rows(7, 4, day=SECOND)))
    erasure = erase(area, "product_id\n1\n")
    candidate = publish(area, 8, rows(8, 1, 2) + rows(8, 1, 5, day=SECOND), erasure)
    assert [r[0] for r in found(area)] == [2, 3, 4, 5]
    assert [(area.entry(day).new_keys, area.entry(day).survivors) for day in (FIRST, SECOND)] == [(0, 1), (1, 1)]
    assert candidate.erased
    assert candidate.erased.rows == {FIRST: 1, SECOND: 1}
    assert len(candidate.erased.delivered) == 1
    assert [e.key for e in candidate.examples if "product_id=1," in e.key] == []
    # The next publish builds on files without fingerprints of these dates.
    publish(area, 9, rows(9, 1, 2, 3) + rows(9, 4, day=SECOND), erasure)
    assert [r[0] for r in found(area)] == [2, 3, 4, 5]
    assert (area.entry(FIRST).new_keys, area.entry(FIRST).survivors) == (0, 0)


@pytest.mark.parametrize(("plan", "mode"), [(Plan.AUTO, LAST_SEEN), (Plan.REWRITE, LAST_CHANGED)])
def test_no_plan_brings_an_erased_key_back(area: SparkJobFeed, plan: Plan, mode: UpdateIdMode) -> None:
    area.plan, area.mode = plan, mode
    assert_erased_key_stays_away(area)


@pytest.mark.spark
@pytest.mark.parametrize("mode", list(UpdateIdMode))
def test_plan_window_does_not_either(with_spark: SparkJobFeed, mode: UpdateIdMode) -> None:
    with_spark.plan, with_spark.mode = Plan.WINDOW, mode
    assert_erased_key_stays_away(with_spark)


def test_a_candidate_says_which_erased_keys_were_delivered(area: SparkJobFeed) -> None:
    """None, one that two erasures name, and nothing at all if no delivery was read."""
    area.publish(area.land(7, rows(7, 1, 2)))
    by_product = erase(area, "product_id\n1\n")
    by_store = erase(area, "product_id,store_id\n1,2072\n", by_product)
    absent = publish(area, 8, rows(8, 2), by_product, by_store)
    assert absent.erased
    assert (absent.erased.delivered, absent.erased.rows) == ((), {})
    arrival = area.land(9, rows(9, 1, 2))
    attempt = replace(area.attempt([arrival]), erasures=(by_product, by_store))
    both = area.run(attempt)
    area.commit(both)
    assert both.erased
    assert both.erased.rows == {FIRST: 1}
    assert len(both.erased.delivered) == 2
    replay = replace(area.attempt([]), deliveries=(arrival.delivery,), erasures=attempt.erasures)
    assert area.run(replay).erased is None


def test_only_snapshots_after_one_without_the_key_bring_it_back(area: SparkJobFeed) -> None:
    area.publish(area.land(7, rows(7, 1, 2)))
    candidate = run_erasure(area, "product_id\n1\n")
    area.commit(candidate)
    assert candidate.erased
    assert candidate.erased.tombstones
    tombstones = candidate.erased.tombstones
    erasure = record(area, replace(tombstones, keys=(replace(tombstones.keys[0], absent_since=9),)))
    publish(area, 8, rows(8, 1, 2), erasure)
    assert found(area) == [(2, 80, 8)]
    publish(area, 10, rows(10, 1, 2), erasure)
    assert found(area) == [(1, 100, 10), (2, 100, 10)]
    second = erase(area, "product_id\n1\n", erasure)
    publish(area, 11, rows(11, 1, 2), erasure, second)
    assert found(area) == [(2, 110, 11)]


def test_a_record_of_another_seed_is_refused_and_names_the_way_out(area: SparkJobFeed) -> None:
    area.publish(area.land(7, rows(7, 1, 2)))
    erasure = erase(area, "product_id\n1\n", seed_id=5)
    with pytest.raises(ContractViolation, match="erase the same keys again"):
        publish(area, 8, rows(8, 1), erasure)


def test_a_wrong_file_of_keys_is_refused_without_its_values(area: SparkJobFeed) -> None:
    area.publish(area.land(7, rows(7, 1, 2)))
    with pytest.raises(ConfigurationError, match=r"Line \[3\] of the file of keys has no \[INT64\]") as caught:
        erase(area, "product_id\n1\nsecret\n")
    assert "secret" not in str(caught.value)


def recorded(area: SparkJobFeed, snapshot_id: int, values: dict[int, int]) -> list[tuple[str, int]]:
    """Kind and product of each change that a snapshot makes."""
    rows_of_snapshot = [row(snapshot_id, product, value) for product, value in values.items()]
    changes = area.changes(area.publish(area.land(snapshot_id, rows_of_snapshot)))
    assert changes is not None
    return sorted((change["change_type"], change["product_id"]) for change in changes)


def test_a_key_goes_missing_once_and_returns_once(area: SparkJobFeed) -> None:
    area.with_changes = True
    assert area.changes(area.publish(area.land(1, rows(1, 1, 2)))) is None
    assert recorded(area, 2, {1: 10}) == [("missing", 2)]
    assert recorded(area, 3, {1: 10}) == []
    assert recorded(area, 5, {1: 11, 2: 12}) == [("changed", 1), ("returned", 2)]
    assert recorded(area, 4, {1: 9, 3: 9}) == [("new", 3)]  # late: no key goes missing
    assert recorded(area, 5, {1: 12}) == [("changed", 1)]  # a correction without key 2
    assert recorded(area, 6, {1: 12}) == [("missing", 2)]


def test_a_table_without_value_columns_has_its_changes(area: SparkJobFeed) -> None:
    """New keys are decoded from the fingerprints, and missing ones are in no landed file."""
    columns = tuple(c for c in PRODUCTS.columns if c.name in ("date", "product_id", "update_id"))
    area.table = replace(PRODUCTS, columns=columns, keys=("date", "product_id"), cluster_by=())
    area.with_changes = True
    found = []
    for snapshot_id, products in enumerate([(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 5, 6)], start=1):
        delivered = [{"date": FIRST, "product_id": product, "update_id": snapshot_id} for product in products]
        changes = area.changes(area.publish(area.land(snapshot_id, delivered))) or []
        found.append(sorted((change["change_type"], change["product_id"]) for change in changes))
    assert found == [[], [("missing", 4), ("new", 5)], [("missing", 3), ("new", 6)]]
    assert sorted((r["product_id"], r["update_id"]) for r in area.rows()) == [
        (1, 3),
        (2, 3),
        (3, 2),
        (4, 1),
        (5, 3),
        (6, 3),
    ]


def test_no_key_is_missing_before_update_ids_tell(area: SparkJobFeed) -> None:
    """After a takeover and in mode last_changed they name other snapshots than the newest that has the row."""
    area.with_changes = True
    take_over(area, MIXED[:3])
    assert recorded(area, 4, {1: 30, 2: 21}) == [("changed", 2)]
    assert recorded(area, 5, {1: 30}) == [("missing", 2)]
    area.mode = LAST_CHANGED
    assert recorded(area, 6, {2: 22}) == [("changed", 2)]
    area.mode = LAST_SEEN
    assert recorded(area, 7, {1: 30}) == []
    assert recorded(area, 8, {2: 22}) == [("missing", 1), ("returned", 2)]
