"""Checks of the manifest: unique keys, missing dates, duplicates, quota."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.checks import manifest_checks as checks
from dedup_clone.checks.check_result import CheckResult, CheckResults, Level, accept, listed, require_no_failure
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.manifest import Candidate, DateOutcome, DedupMetrics, DeliveryMetrics
from dedup_clone.settings.check_settings import CheckSettings, DuplicateKeys
from tests.unit.checks.builders import TODAY, entry, files, manifest

SETTINGS = CheckSettings(max_missing_dates=1, max_new_share=0.1, max_survivor_share=0.1, max_changed_share=0.1)
PARENT = manifest(entry(TODAY, 100), generation=1, parent=None)


def test_too_many_missing_dates_fail() -> None:
    carried = [entry(TODAY - timedelta(days=i), plan=DateOutcome.COPIED_FORWARD) for i in range(2)]
    assert checks.check_missing_dates(manifest(carried[0]), SETTINGS).level is Level.PASS
    assert checks.check_missing_dates(manifest(*carried), SETTINGS).level is Level.FAIL


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
    candidate = Candidate(manifest(), None, None, metrics, (), (), DedupMetrics(0, 0, {}))
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
    full = checks.check_partition_quota(two, 15_000, own_loads=1)
    assert (full.level, full.found) == (Level.FAIL, "30000 in the last 24 hours, 2 of this publish")
    assert "midnight" not in full.next_step


def test_quota_counts_every_try_of_this_publish() -> None:
    """Failed load jobs count as well (optimize-load-jobs). Without a load the swap still replaces every partition."""
    one = manifest(entry(TODAY))
    assert checks.check_partition_quota(one, 29_998, own_loads=2).level is Level.PASS
    assert checks.check_partition_quota(one, 29_998, own_loads=3).level is Level.FAIL
    assert checks.check_partition_quota(one, 30_000, own_loads=0).level is Level.FAIL


def test_an_accepted_fail_becomes_a_warning_that_keeps_the_reason() -> None:
    found = [CheckResult("new_share", Level.FAIL, "a", "b"), CheckResult("layout", Level.FAIL, "a", "b")]
    accepted = accept(found, ["new_share"], "a new country")
    assert [v.level for v in accepted] == [Level.WARN, Level.FAIL]
    assert "a new country" in accepted[0].next_step


def test_fails_are_raised_together_and_say_what_readers_see() -> None:
    found = (CheckResult("a", Level.FAIL, "1", "2", "do x"), CheckResult("b", Level.FAIL, "3", "4", "do y"))
    with pytest.raises(CheckFailed, match=r"(?s)Target keeps.*FAIL a: \[1\], expected \[2\]: do x.*FAIL b"):
        require_no_failure(CheckResults("before", found), "Target keeps its old content.")
    require_no_failure(CheckResults("before", (CheckResult("a", Level.WARN, "1", "2"),)), "")


@pytest.mark.parametrize(
    ("things", "text"), [([], "none"), ([1], "1"), ([1, 2, 3], "1, 2, 3"), ([1, 2, 3, 4, 5], "1, 2, 3, and 2 more")]
)
def test_evidence_lists_the_first_and_counts_the_rest(things: list[int], text: str) -> None:
    assert listed(things, most=3) == text
