"""The page's JSON: what it shows of a feed, of its verdict and of the arrivals of the day."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dedup_clone.contract.attempt import Kind
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import ExpectedTime, ExpectedTimeState, FreshnessStatus
from dedup_clone.page.feed_history import DeliveryState
from dedup_clone.page.feed_reader import FeedRecords, JobProgress
from dedup_clone.page.feed_view import feed_summary, page_view
from dedup_clone.page.freshness_view import status_view, today_view
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import Outcome
from tests.shared.page_feeds import NOW, arrival, changed, empty, fresh, history_of, late, make_feed, verdict


def test_the_view_is_json_whatever_the_feed_is_like() -> None:
    for records in (fresh(), late(), empty(), make_feed(1, 1)):
        assert json.loads(json.dumps(page_view(records, NOW)))["feed"] == records.verdict.feed
    ids = [a[name] for a in page_view(late(), NOW)["replayable"] for name in ("snapshot_id", "marker_generation")]
    assert all(isinstance(i, str) for i in ids), "browsers round great numbers"


def test_the_last_hundred_publishes_are_shown_and_counted() -> None:
    view = page_view(fresh(), NOW)
    assert [p["generation"] for p in view["publishes"]] == list(range(21, 121))
    assert view["costs"]["publishes"] == 100
    assert round(view["costs"]["merge_usd"]) == 24160
    assert view["live"]["generation"] == 120
    assert view["live"]["age_s"] == 78 * 60


def test_deliveries_that_only_the_watchdog_has_seen_are_named_beside_the_arrivals_of_the_day() -> None:
    stored = verdict("sales", waiting=2)
    records = replace(fresh(), verdict=stored)
    assert page_view(records, NOW)["today"]["unregistered"] == 2
    assert page_view(records, stored.checked_at + timedelta(hours=1))["today"]["unregistered"] == 0
    assert page_view(fresh(), NOW)["today"]["unregistered"] == 0


def test_the_cost_of_failed_attempts_is_added_to_the_publishes_that_are_compared() -> None:
    attempts = history_of(fresh()).attempts
    each = attempts[0].cost.total_usd if attempts[0].cost else 0
    failed = [replace(record, outcome=Outcome.FAILED) for record in (attempts[0], attempts[-2], attempts[-1])]
    costs = page_view(changed(fresh(), attempts=(failed[0], *attempts[1:-2], *failed[1:])), NOW)["costs"]
    assert costs["failed_usd"] == 2 * each  # the first of them failed before all publishes that are shown
    assert costs["usd"] == pytest.approx(99 * each)


def test_the_lag_of_a_late_snapshot_is_not_shown_as_that_of_the_newest() -> None:
    attempts = history_of(fresh()).attempts
    last = attempts[-1]
    swapped_at = NOW - timedelta(minutes=5)
    late_one = replace(last, deliveries=attempts[-9].deliveries, swapped_at=swapped_at, lag_s=720.0)
    shown = page_view(changed(fresh(), attempts=(late_one,)), NOW)["publishes"][0]
    assert shown["lag_of"] == {
        "snapshot_id": str(attempts[-9].snapshot_id),
        "arrived_at": (swapped_at - timedelta(minutes=12)).isoformat(),
    }
    assert shown["snapshot_id"] == str(last.snapshot_id)


def test_each_partition_has_its_rows_and_its_days_until_it_expires() -> None:
    dates = page_view(fresh(), NOW)["dates"]
    assert len(dates) == 730
    assert (dates[0][0], dates[0][3]) == ("2024-11-22", 1)
    assert (dates[-1][0], dates[-1][3]) == ("2026-11-21", 730)


def test_refused_failed_held_back_and_excluded_deliveries_are_shown_with_their_reasons() -> None:
    records = late()
    view = page_view(records, NOW)
    (refused,) = view["refused"]
    assert (refused["snapshot_id"], refused["corrected_by"]) == ("2121", None)
    assert "NULL in key column [store_id]" in refused["reason"]
    assert [f["generation"] for f in view["failures"]] == [122]
    assert view["excluded"] == ["2090-1795000000000090"]
    assert [a["snapshot_id"] for a in view["waiting"]] == ["2122"]
    assert (view["checks"][-1]["published"], view["checks"][-1]["verdicts"][1]["level"]) == (False, "fail")
    stopped = view["stopped"]
    assert (stopped["snapshot_id"], stopped["marker_generation"]) == ("2122", "1795000000000122")
    assert [(f["check"], f["expected"]) for f in stopped["failed"]] == [
        ("new_share", "at most 20.00% as configured and 1.00% as usual")
    ]
    assert stopped["acceptable"]
    assert page_view(fresh(), NOW)["stopped"] is None
    arrivals = history_of(records).arrivals
    delivery = next(a for a in arrivals if a.state is DeliveryState.REFUSED)
    again = replace(delivery.delivery, marker_generation=delivery.delivery.marker_generation + 1)
    correction = replace(delivery, delivery=again, state=DeliveryState.PUBLISHED, refusal=None)
    corrected = page_view(changed(records, arrivals=(*arrivals, correction)), NOW)
    assert corrected["refused"][0]["corrected_by"] == again.name


def test_a_snapshot_that_a_check_stopped_asks_for_nobody_while_another_run_has_the_lease() -> None:
    intent = Intent(Kind.PUBLISH, "store_visits_publish", "manual__1", "00000123-a", 120, 123, NOW, ())
    shown = [
        page_view(replace(late(), intent=found), NOW)["stopped"] is not None
        for found in (None, intent, replace(intent, waits_for_approval=True))
    ]
    assert shown == [True, False, False]


def test_progress_is_shown_until_the_first_load_whatever_the_feed_is_called() -> None:
    progress = JobProgress("compare", 3, 13, NOW)

    def dates(*jobs: str) -> Any:
        intent = Intent(Kind.REBUILD, "d", "r", "00000123-a", 120, 123, NOW, jobs)
        records = FeedRecords(verdict("load_events"), intent=intent, progress=progress)
        return page_view(records, NOW)["running"]["dates"]

    attempt = "dedup_clone-load_events-00000123-a"
    assert dates(f"{attempt}-copy-1")["done"] == 3
    assert dates(f"{attempt}-copy-1", f"{attempt}-load-1") is None


def test_generations_show_whether_and_from_what_they_can_be_restored() -> None:
    records, history = fresh(), history_of(fresh())
    by = generations(records)
    assert by[120][0] == "time travel"  # the live one, if somebody changed target
    assert by[119][0] == "time travel"
    assert by[71][0] is None  # older than a week, and its files are pruned
    made_anew = changed(records, feed_file=replace(history.feed_file, staging_created_at=NOW - timedelta(minutes=1)))
    assert [(number, found) for number, (found, _) in generations(made_anew).items() if found] == [
        (120, "files"), (119, "files"),
    ]  # fmt: skip


def generations(records: FeedRecords) -> dict[int, tuple[str | None, str | None]]:
    """From what each generation can be restored, and until when."""
    return {g["generation"]: (g["restorable"], g["until"]) for g in page_view(records, NOW)["generations"]}


def test_a_rollback_has_the_files_of_what_it_restored_and_staging_held_that_before() -> None:
    records, history = fresh(), history_of(fresh())
    rollback = replace(history.attempts[-1], kind=Kind.ROLLBACK, restores=117)
    restored = changed(records, attempts=(*history.attempts[:-1], rollback))
    by = generations(restored)
    assert by[120] == by[117] < by[118]
    made_anew = changed(restored, feed_file=replace(history.feed_file, staging_created_at=None))
    by = generations(made_anew)
    assert [by[number][0] for number in (120, 119, 118, 117)] == ["files", "files", None, "files"]


def test_a_replay_of_an_old_snapshot_has_no_lag_and_misses_no_sla() -> None:
    attempts = history_of(fresh()).attempts
    replay = replace(attempts[-1], deliveries=attempts[40].deliveries, lag_s=None, replay=True)
    view = page_view(changed(fresh(), attempts=(*attempts[:-1], replay)), NOW)
    assert (view["live"]["kind"], view["live"]["lag_s"]) == ("replay", None)
    assert {p["kind"] for p in view["publishes"][:-1]} == {"publish"}


def test_the_last_audit_and_the_dates_that_are_unequal_are_shown() -> None:
    assert page_view(empty(), NOW)["audit"] is None
    audit = page_view(late(), NOW)["audit"]
    assert (audit["outcome"], audit["generation"], audit["unequal_dates"]) == ("unequal", 120, [NOW.date().isoformat()])


def test_a_table_that_was_taken_over_is_a_bootstrap() -> None:
    last = history_of(fresh()).attempts[-1]
    taken = replace(last, kind=Kind.BOOTSTRAP, parent=None, deliveries=(), lag_s=None)
    assert page_view(changed(fresh(), attempts=(taken,)), NOW)["live"]["kind"] == "bootstrap"


def test_the_list_of_feeds_has_the_verdict_and_how_many_deliveries_wait() -> None:
    checked = verdict("store_visits", waiting=1)
    summary = feed_summary(checked.summary, NOW)
    assert (summary["status"], summary["waiting"]) == ("fresh", 1)
    assert summary["headline"] == status_view(checked, NOW)["headline"]


MISSED = Incident(IncidentKind.LATE, Severity.ALERT, NOW, "snapshot 8 is not live", "open the run.", "", "snapshot 7")


def test_the_verdict_is_shown_with_its_age_its_incidents_and_the_next_arrival() -> None:
    expected = NOW + timedelta(hours=2)
    stored = verdict("sales", FreshnessStatus.LATE, incidents=(MISSED,), waiting=1, next_expected_at=expected)
    view = status_view(stored, NOW + timedelta(seconds=40))
    assert (view["status"], view["headline"]) == (
        "late",
        "Readers see snapshot 2120 (generation 120); 1 delivery waits.",
    )
    assert view["next_step"] == "open the run."
    assert (view["check_age_s"], view["next_expected_at"]) == (80.0, expected.isoformat())
    (incident,) = view["incidents"]
    assert (incident["kind"], incident["name"], incident["severity"]) == ("late", "late", "alert")
    assert (incident["what"], incident["next_step"]) == ("snapshot 8 is not live", "open the run.")
    assert status_view(stored, NOW + timedelta(hours=3))["next_expected_at"] is None, "it has passed"
    # What waited at the check is counted until three checks were missed.
    counted = [status_view(stored, stored.checked_at + timedelta(minutes=age))["waiting"] for age in (15, 16)]
    assert counted == [1, None]


def test_a_verdict_that_missed_three_checks_is_unknown_and_says_since_when() -> None:
    stored = verdict("sales", FreshnessStatus.LATE, incidents=(MISSED,))
    assert status_view(stored, stored.checked_at + timedelta(minutes=15))["status"] == "late"
    view = status_view(stored, stored.checked_at + timedelta(minutes=16))
    assert view["status"] == "unknown"
    assert view["headline"] == (
        "The watchdog has not checked since 2026-11-21 15:29:20 UTC, 16 min ago. "
        "Its last verdict was late: Readers see snapshot 2120 (generation 120)."
    )
    assert len(view["incidents"]) == 1


def test_the_day_is_the_day_of_the_feeds_zone() -> None:
    now = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)  # already the 21st in Berlin
    times = tuple(ExpectedTime(now + timedelta(hours=hours), ExpectedTimeState.PENDING) for hours in (-1, 6))
    berlin = verdict("sales", zone="Europe/Berlin", expected_today=times)
    yesterday, early = now - timedelta(hours=2), now - timedelta(minutes=5)
    view = today_view(berlin, [arrival(1, yesterday), arrival(2, early)], now)
    assert view["day"] == "2026-11-21"
    assert [(one["clock"], one["state"]) for one in view["expected"]] == [("06:30", "pending")]
    assert [one["arrived_at"] for one in view["seen"]] == [early.isoformat()]
    utc = verdict("sales", expected_today=())
    assert today_view(utc, [], now)["day"] == "2026-11-20"
    assert today_view(utc, [], now)["expected"] == []
