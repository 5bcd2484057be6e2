"""Does a snapshot bring as much as the ones before? Unique keys, missing dates, duplicates, quota, clustering."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dedup_clone.checks import row_checks as checks
from dedup_clone.checks.check_result import CheckResult, Level, listed
from dedup_clone.checks.row_checks import check_shares, clustering_hint, shares
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import (
    Candidate,
    DateOutcome,
    DeliveryMetrics,
    Difference,
    KeyExample,
    Manifest,
)
from dedup_clone.contract.table import PartitionBy
from dedup_clone.settings.check_settings import CheckSettings, DuplicateKeys
from tests.unit.checks.builders import TABLE, TODAY, entry, files, manifest

BOUNDS = CheckSettings(max_missing_dates=1, max_new_share=0.1, max_survivor_share=0.1, max_changed_share=0.1)
PARENT = manifest(entry(TODAY, 1000), generation=1, parent=None)
YESTERDAY = TODAY - timedelta(days=1)
KINDS = [("new_share", "new_keys"), ("survivor_share", "survivors"), ("changed_share", "changed")]


def share_results(found: Manifest, *history: float, settings: CheckSettings = BOUNDS) -> dict[str, CheckResult]:
    records = [dict.fromkeys(("new_share", "survivor_share", "changed_share"), share) for share in history]
    return {v.check: v for v in check_shares(found, settings, PARENT, records, ())}


@pytest.mark.parametrize(("check", "count"), KINDS)
def test_shares_beyond_their_bound_fail(check: str, count: str) -> None:
    within = share_results(manifest(entry(TODAY, 1000, **{count: 100})))
    beyond = share_results(manifest(entry(TODAY, 1000, **{count: 101})))
    assert (within[check].level, beyond[check].level) == (Level.PASS, Level.FAIL)


def test_a_date_on_which_the_parent_has_no_rows_is_not_compared() -> None:
    """All of them were erased, so each row of the snapshot is new."""
    parent = manifest(entry(TODAY, 1000), entry(YESTERDAY, 0), generation=1, parent=None)
    found = manifest(entry(TODAY, 1000), entry(YESTERDAY, 500, new_keys=500))
    assert {result.level for result in check_shares(found, BOUNDS, parent, (), ())} == {Level.PASS}


@pytest.mark.parametrize(("check", "count"), KINDS)
def test_a_share_far_above_the_usual_fails_although_it_is_within_its_bound(check: str, count: str) -> None:
    usual = [0.003] * 5
    within = share_results(manifest(entry(TODAY, 1000, **{count: 30})), *usual)
    beyond = share_results(manifest(entry(TODAY, 1000, **{count: 31})), *usual)
    assert (within[check].level, beyond[check].level) == (Level.PASS, Level.FAIL)
    assert "3.00% as usual (the last 5 publishes had 0.3000% in the median)" in beyond[check].expected


@pytest.mark.parametrize(
    ("new_keys", "history", "level"),
    [
        (31, [0.003] * 4 + [0.09], Level.FAIL),  # one unusual publish does not become the usual
        (99, [0.003] * 4, Level.PASS),  # four publishes are no measure
        (10, [0.0] * 20, Level.PASS),  # a hundredth is never unusual
        (11, [0.0] * 20, Level.FAIL),
    ],
)
def test_what_is_usual_is_the_median_of_the_last_five_publishes(
    new_keys: int, history: list[float], level: Level
) -> None:
    assert share_results(manifest(entry(TODAY, 1000, new_keys=new_keys)), *history)["new_share"].level is level


def test_the_comparison_with_the_usual_can_be_switched_off() -> None:
    settings = BOUNDS.model_copy(update={"max_times_usual": None})
    found = share_results(manifest(entry(TODAY, 1000, new_keys=99)), *[0.0] * 20, settings=settings)
    assert found["new_share"].level is Level.PASS


def test_a_fail_names_the_dates_that_stand_out_and_some_of_their_keys() -> None:
    parent = manifest(entry(TODAY, 1000), entry(YESTERDAY, 1000), generation=1, parent=None)
    found = manifest(entry(TODAY, 1000, changed=900), entry(YESTERDAY, 1000, changed=1))
    examples = [
        KeyExample(TODAY, Difference.CHANGED, "product_id=5, store_id=1"),
        KeyExample(TODAY, Difference.NEW, "product_id=9, store_id=1"),
    ]
    (changed,) = [v for v in check_shares(found, BOUNDS, parent, [], examples) if v.level is Level.FAIL]
    assert changed.check == "changed_share"
    assert "901 of 2000 rows changed" in changed.found
    assert f"most on {TODAY}: 900 of 1000, {YESTERDAY}: 1 of 1000; of delivery [" in changed.found
    assert changed.examples == ("product_id=5, store_id=1",)


def test_rows_that_were_missing_before_are_not_missing_again() -> None:
    parent = manifest(entry(TODAY, 1000, survivors=300), generation=1, parent=None)
    found = manifest(entry(TODAY, 1000, survivors=310))
    assert shares(found, parent)["survivor_share"] == 0.01


def test_dates_that_the_parent_lacked_do_not_count_as_new_rows() -> None:
    new_day = entry(TODAY + timedelta(days=1), 1000, new_keys=1000)
    assert share_results(manifest(entry(TODAY, 1000), new_day))["new_share"].level is Level.PASS


def test_dates_that_no_delivery_brought_do_not_count() -> None:
    found = manifest(entry(TODAY, 1000, new_keys=5), entry(YESTERDAY, 9000, plan=DateOutcome.COPIED_FORWARD))
    parent = manifest(entry(TODAY, 1000), entry(YESTERDAY, 9000), generation=1, parent=None)
    assert shares(found, parent)["new_share"] == 0.005


def test_changes_that_nobody_counted_are_not_called_none() -> None:
    found = manifest(entry(TODAY, 1000, changed=None))
    result = share_results(found, *[0.0] * 5)["changed_share"]
    assert (result.level, result.found) == (Level.PASS, "not compared: no plan of this publish counted changed rows")
    assert shares(found, PARENT).keys() == {"new_share", "survivor_share"}


def test_dates_whose_changes_were_counted_are_checked_alone() -> None:
    parent = manifest(entry(TODAY, 1000), entry(YESTERDAY, 9000), generation=1, parent=None)
    found = manifest(entry(TODAY, 1000, changed=200), entry(YESTERDAY, 9000, changed=None))
    (result,) = [v for v in check_shares(found, BOUNDS, parent, [], ()) if v.check == "changed_share"]
    assert result.level is Level.FAIL
    assert "200 of 1000 rows changed (20.0000%); not compared on 1 of 2 dates" in result.found


ONE = CheckSettings(max_missing_dates=1)


def test_too_many_missing_dates_fail() -> None:
    carried = [entry(TODAY - timedelta(days=i), plan=DateOutcome.COPIED_FORWARD) for i in range(2)]
    assert checks.check_missing_dates(manifest(carried[0]), ONE).level is Level.PASS
    assert checks.check_missing_dates(manifest(*carried), ONE).level is Level.FAIL
    deleted = replace(manifest(carried[0]), deleted_dates={TODAY - timedelta(days=2): 7})
    result = checks.check_missing_dates(deleted, ONE)
    assert result.level is Level.FAIL
    assert result.found.endswith("(its 7 rows are deleted)")


def test_a_late_snapshot_lacks_no_dates() -> None:
    """The newest snapshot has dates that came after it."""
    carried = [entry(TODAY - timedelta(days=i), plan=DateOutcome.COPIED_FORWARD) for i in range(5)]
    late = replace(manifest(*carried), applied=(Delivery(3, 2), Delivery(5, 1)))
    assert checks.check_missing_dates(late, ONE).level is Level.PASS
    with_newest = replace(late, applied=(Delivery(3, 2), Delivery(7, 1)))
    assert checks.check_missing_dates(with_newest, ONE).level is Level.FAIL


@pytest.mark.parametrize(
    ("ties", "setting", "level"),
    [
        (0, DuplicateKeys.FAIL, Level.PASS),
        (3, DuplicateKeys.WARN, Level.WARN),
        (3, DuplicateKeys.FAIL, Level.FAIL),
    ],
)
def test_duplicate_keys_follow_the_feed(ties: int, setting: DuplicateKeys, level: Level) -> None:
    metrics = (DeliveryMetrics(Delivery(7, 1), 100, 0, ties),)
    candidate = Candidate(manifest(), None, None, metrics)
    assert checks.check_duplicate_keys(candidate, CheckSettings(duplicate_keys=setting)).level is level


@pytest.mark.parametrize(
    ("rows", "level"), [([(TODAY, 6), (TODAY, 4)], Level.PASS), ([(TODAY, 11)], Level.FAIL), ([], Level.FAIL)]
)
def test_files_add_up_to_unique_keys(rows: list[tuple[object, int]], level: Level) -> None:
    assert checks.check_keys_unique(manifest(entry(TODAY, 10)), files(*rows)).level is level  # type: ignore[arg-type]


def test_quota_counts_loads_of_the_last_24_hours() -> None:
    """BigQuery refills quotas through the day (quotas, "Quota replenishment")."""
    two = manifest(entry(TODAY), entry(TODAY - timedelta(days=1)))
    assert checks.check_partition_quota(two, 14_999, own_loads=1).level is Level.PASS
    assert checks.check_partition_quota(two, 15_000, own_loads=1).level is Level.FAIL


def test_quota_counts_months_of_a_table_that_is_partitioned_by_month() -> None:
    days = [entry(TODAY - timedelta(days=number)) for number in range(100)]
    monthly = replace(manifest(*days), table=replace(TABLE, partition_by=PartitionBy.MONTH))
    assert checks.check_partition_quota(monthly, 7_499, own_loads=1).level is Level.PASS  # August to November
    assert checks.check_partition_quota(monthly, 7_500, own_loads=1).level is Level.FAIL


def test_quota_counts_24_hours_of_each_day_of_a_table_that_is_partitioned_by_hour() -> None:
    two = manifest(entry(TODAY), entry(TODAY - timedelta(days=1)))
    hourly = replace(two, table=replace(TABLE, partition_by=PartitionBy.HOUR))
    assert checks.check_partition_quota(hourly, 624, own_loads=1).level is Level.PASS
    assert checks.check_partition_quota(hourly, 625, own_loads=1).level is Level.FAIL


def test_quota_counts_every_try_of_this_publish() -> None:
    """Failed load jobs count as well (optimize-load-jobs). Without a load the swap still replaces every partition."""
    one = manifest(entry(TODAY))
    assert checks.check_partition_quota(one, 29_998, own_loads=2).level is Level.PASS
    assert checks.check_partition_quota(one, 29_998, own_loads=3).level is Level.FAIL
    assert checks.check_partition_quota(one, 30_000, own_loads=0).level is Level.FAIL


@pytest.mark.parametrize(("shares", "is_given"), [((0.9, 0.9), True), ((0.6, 0.1), False), ((None, None), False)])
def test_the_hint_is_given_when_most_rows_are_in_overlapping_row_groups(
    shares: tuple[float | None, ...], is_given: bool
) -> None:
    hint = clustering_hint(manifest(*(entry(TODAY, cluster_overlap=share) for share in shares)))
    assert (hint is not None) == is_given
    if hint is not None:
        assert "[90%]" in hint
        assert "sorted by [product_id], or set [dedup.plan: rewrite]" in hint


@pytest.mark.parametrize(
    ("things", "text"),
    [([], "none"), ([1], "1"), ([1, 2, 3, 4, 5], "1, 2, 3, 4, 5"), ([*range(7)], "0, 1, 2, 3, 4, and 2 more")],
)
def test_evidence_lists_the_first_five_and_counts_the_rest(things: list[int], text: str) -> None:
    assert listed(things) == text
