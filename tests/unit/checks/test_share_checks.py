"""The circuit breaker: does a snapshot bring as much as the ones before?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.checks.check_result import CheckResult, Level
from dedup_clone.checks.share_checks import PUBLISHES_FOR_MEDIAN, check_shares, shares
from dedup_clone.contract.manifest import DateOutcome, Difference, KeyExample, Manifest
from dedup_clone.settings.check_settings import CheckSettings
from tests.unit.checks.builders import TODAY, entry, manifest

SETTINGS = CheckSettings(max_missing_dates=1, max_new_share=0.1, max_survivor_share=0.1, max_changed_share=0.1)
PARENT = manifest(entry(TODAY, 1000), generation=1, parent=None)
YESTERDAY = TODAY - timedelta(days=1)
KINDS = [("new_share", "new_keys"), ("survivor_share", "survivors"), ("changed_share", "changed")]


def share_results(found: Manifest, *history: float, settings: CheckSettings = SETTINGS) -> dict[str, CheckResult]:
    records = [dict.fromkeys(("new_share", "survivor_share", "changed_share"), share) for share in history]
    return {v.check: v for v in check_shares(found, settings, PARENT, records, ())}


@pytest.mark.parametrize(("check", "count"), KINDS)
def test_shares_beyond_their_bound_fail(check: str, count: str) -> None:
    within = share_results(manifest(entry(TODAY, 1000, **{count: 100})))
    beyond = share_results(manifest(entry(TODAY, 1000, **{count: 101})))
    assert (within[check].level, beyond[check].level) == (Level.PASS, Level.FAIL)


def test_a_bound_is_called_configured_only_if_the_feed_file_has_it() -> None:
    found = share_results(manifest(entry(TODAY, 1000)), settings=CheckSettings(max_new_share=0.2))
    assert "configured" in found["new_share"].expected
    assert "configured" not in found["survivor_share"].expected


@pytest.mark.parametrize(("check", "count"), KINDS)
def test_a_share_far_above_the_usual_fails_although_it_is_within_its_bound(check: str, count: str) -> None:
    usual = [0.003] * PUBLISHES_FOR_MEDIAN
    within = share_results(manifest(entry(TODAY, 1000, **{count: 30})), *usual)
    beyond = share_results(manifest(entry(TODAY, 1000, **{count: 31})), *usual)
    assert (within[check].level, beyond[check].level) == (Level.PASS, Level.FAIL)
    assert "3.00% as usual (the last 5 publishes had 0.3000% in the median)" in beyond[check].expected


def test_one_unusual_publish_does_not_become_the_usual() -> None:
    usual = [0.003] * (PUBLISHES_FOR_MEDIAN - 1) + [0.09]
    assert share_results(manifest(entry(TODAY, 1000, new_keys=31)), *usual)["new_share"].level is Level.FAIL


def test_few_publishes_are_no_measure() -> None:
    usual = [0.003] * (PUBLISHES_FOR_MEDIAN - 1)
    assert share_results(manifest(entry(TODAY, 1000, new_keys=99)), *usual)["new_share"].level is Level.PASS


def test_a_share_that_is_always_tolerated_is_never_unusual() -> None:
    assert share_results(manifest(entry(TODAY, 1000, new_keys=10)), *[0.0] * 20)["new_share"].level is Level.PASS
    assert share_results(manifest(entry(TODAY, 1000, new_keys=11)), *[0.0] * 20)["new_share"].level is Level.FAIL


def test_the_comparison_with_the_usual_can_be_switched_off() -> None:
    settings = SETTINGS.model_copy(update={"max_times_usual": None})
    assert share_results(manifest(entry(TODAY, 1000, new_keys=99)), *[0.0] * 20, settings=settings)[
        "new_share"
    ].level is (Level.PASS)


def test_a_fail_names_the_dates_that_stand_out_and_some_of_their_keys() -> None:
    parent = manifest(entry(TODAY, 1000), entry(YESTERDAY, 1000), generation=1, parent=None)
    found = manifest(entry(TODAY, 1000, changed=900), entry(YESTERDAY, 1000, changed=1))
    examples = [
        KeyExample(TODAY, Difference.CHANGED, "product_id=5, store_id=1"),
        KeyExample(TODAY, Difference.NEW, "product_id=9, store_id=1"),
    ]
    (changed,) = [v for v in check_shares(found, SETTINGS, parent, [], examples) if v.level is Level.FAIL]
    assert changed.check == "changed_share"
    assert "901 of 2000 rows changed" in changed.found
    assert f"most on {TODAY}: 900 of 1000, {YESTERDAY}: 1 of 1000; of delivery [" in changed.found
    assert changed.examples == ("product_id=5, store_id=1",)
    assert changed.brief == "45.1 % changed rows, 10 % allowed"


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


def test_the_first_publish_has_no_shares_to_check() -> None:
    found = check_shares(manifest(entry(TODAY, 100, new_keys=100)), SETTINGS, None, [], ())
    assert {v.level for v in found} == {Level.PASS}


def test_changes_that_nobody_counted_are_not_called_none() -> None:
    found = manifest(entry(TODAY, 1000, changed=None))
    result = share_results(found, *[0.0] * PUBLISHES_FOR_MEDIAN)["changed_share"]
    assert (result.level, result.found) == (Level.PASS, "not compared: no plan of this publish counted changed rows")
    assert shares(found, PARENT).keys() == {"new_share", "survivor_share"}


def test_dates_whose_changes_were_counted_are_checked_alone() -> None:
    parent = manifest(entry(TODAY, 1000), entry(YESTERDAY, 9000), generation=1, parent=None)
    found = manifest(entry(TODAY, 1000, changed=200), entry(YESTERDAY, 9000, changed=None))
    (result,) = [v for v in check_shares(found, SETTINGS, parent, [], ()) if v.check == "changed_share"]
    assert result.level is Level.FAIL
    assert "200 of 1000 rows changed (20.0000%); not compared on 1 of 2 dates" in result.found
