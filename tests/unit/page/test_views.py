"""The page's JSON: what it shows of a feed, of its verdict and of the arrivals of the day."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.table import PartitionBy
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import ExpectedTime, ExpectedTimeState, FreshnessStatus, FreshnessVerdict
from dedup_clone.page.feed_reader import FeedRecords
from dedup_clone.page.feed_view import page_view
from dedup_clone.state.current import Intent
from tests.shared.page_feeds import NOW, empty, fresh, late, make_feed, verdict, with_feed_file


def test_the_view_is_json_whatever_the_feed_is_like() -> None:
    for records in (fresh(), late(), empty(), make_feed(1, 1)):
        assert json.loads(json.dumps(page_view(records, NOW)))["feed"] == records.verdict.feed
    ids = [a[name] for a in page_view(late(), NOW)["deliveries"] for name in ("snapshot_id", "marker_generation")]
    assert all(isinstance(i, str) for i in ids), "browsers round great numbers"


def test_each_partition_has_its_rows_and_its_days_until_it_expires() -> None:
    dates = page_view(fresh(), NOW)["dates"]
    assert len(dates) == 730
    assert (dates[0][0], dates[0][3]) == ("2024-11-22", 1)
    assert (dates[-1][0], dates[-1][3]) == ("2026-11-21", 730)


def test_a_date_of_a_table_by_month_expires_with_the_first_of_its_month() -> None:
    records = fresh()
    assert records.live
    table = replace(records.live.table, partition_by=PartitionBy.MONTH)
    dates = page_view(replace(records, live=replace(records.live, table=table)), NOW)["dates"]
    assert (dates[-1][0], dates[-1][3]) == ("2026-11-21", 710)


def test_refused_stopped_and_excluded_deliveries_are_shown_with_their_reasons() -> None:
    view = page_view(late(), NOW)
    by_state = {d["state"]: d for d in view["deliveries"]}
    assert {state: d["snapshot_id"] for state, d in by_state.items() if state != "published"} == {
        "excluded": "2090",
        "refused": "2121",
        "waiting": "2122",
    }
    assert "NULL in key column [store_id]" in by_state["refused"]["refusal"]
    assert (view["checks"][-1]["published"], view["checks"][-1]["verdicts"][1]["level"]) == (False, "fail")
    stopped = view["stopped"]
    assert (stopped["snapshot_id"], stopped["marker_generation"]) == ("2122", "1795000000000122")
    assert [(f["check"], f["expected"]) for f in stopped["failed"]] == [
        ("new_share", "at most 20.00% as configured and 1.00% as usual")
    ]
    assert stopped["acceptable"]
    assert page_view(fresh(), NOW)["stopped"] is None


def test_a_snapshot_that_a_check_stopped_asks_for_nobody_while_another_run_has_the_lease() -> None:
    intent = Intent(Kind.PUBLISH, "store_visits_publish", "manual__1", "00000123-a", 120, 123, NOW, ())
    shown = [page_view(replace(late(), intent=found), NOW)["stopped"] is not None for found in (None, intent)]
    assert shown == [True, False]


def test_generations_show_whether_and_from_what_they_can_be_restored() -> None:
    records = fresh()
    by = generations(records)
    assert by[120][0] == "time travel"  # the live one, if somebody changed target
    assert by[119][0] == "time travel"
    assert by[71][0] is None  # older than a week, and its files are pruned
    made_anew = with_feed_file(records, staging_created_at=NOW - timedelta(minutes=1))
    assert [(number, found) for number, (found, _) in generations(made_anew).items() if found] == [
        (119, "files"), (120, "files"),
    ]  # fmt: skip


def generations(records: FeedRecords) -> dict[int, tuple[str | None, str | None]]:
    """From what each generation can be restored, and until when."""
    return {g["generation"]: (g["restorable"], g["until"]) for g in page_view(records, NOW)["publishes"]}


def test_a_replay_of_an_old_snapshot_has_no_lag_and_misses_no_sla() -> None:
    attempts = fresh().attempts
    replay = replace(attempts[-1], deliveries=attempts[40].deliveries, lag_s=None, replay=True)
    view = page_view(replace(fresh(), attempts=(*attempts[:-1], replay)), NOW)
    assert (view["live"]["kind"], view["live"]["lag_s"]) == ("replay", None)
    assert {p["kind"] for p in view["publishes"][:-1]} == {"publish"}


def test_the_last_audit_and_the_dates_that_are_unequal_are_shown() -> None:
    assert page_view(empty(), NOW)["audit"] is None
    audit = page_view(late(), NOW)["audit"]
    assert (audit["outcome"], audit["generation"], audit["unequal_dates"]) == ("unequal", 120, [NOW.date().isoformat()])


def test_a_table_that_was_taken_over_is_a_bootstrap() -> None:
    last = fresh().attempts[-1]
    taken = replace(last, kind=Kind.BOOTSTRAP, parent=None, deliveries=(), lag_s=None)
    assert page_view(replace(fresh(), attempts=(taken,)), NOW)["live"]["kind"] == "bootstrap"


def freshness(found: FreshnessVerdict, now: datetime) -> Any:
    return page_view(FeedRecords(found), now)["freshness"]


MISSED = Incident(IncidentKind.LATE, Severity.ALERT, NOW, "snapshot 8 is not live", "open the run.", "", "snapshot 7")


def test_the_verdict_is_shown_with_its_age_its_incidents_and_the_next_arrival() -> None:
    expected = tuple(ExpectedTime(NOW + timedelta(hours=h), ExpectedTimeState.PENDING) for h in (-1, 2))
    stored = verdict("sales", FreshnessStatus.LATE, incidents=(MISSED,), waiting=1, expected=expected)
    view = freshness(stored, NOW + timedelta(seconds=40))
    assert (view["status"], view["headline"]) == (
        "late",
        "Readers see snapshot 2120 (generation 120); 1 delivery waits.",
    )
    assert view["next_step"] == "open the run."
    assert (view["check_age_s"], view["next_expected_at"]) == (80.0, expected[1].at.isoformat())
    (incident,) = view["incidents"]
    assert (incident["kind"], incident["name"], incident["severity"]) == ("late", "late", "alert")
    assert (incident["what"], incident["next_step"]) == ("snapshot 8 is not live", "open the run.")
    assert freshness(stored, NOW + timedelta(hours=3))["next_expected_at"] is None, "it has passed"
    # What waited at the check is counted until three checks were missed.
    counted = [freshness(stored, stored.checked_at + timedelta(minutes=age))["waiting"] for age in (15, 16)]
    assert counted == [1, None]


def test_a_verdict_that_missed_three_checks_is_unknown_and_says_since_when() -> None:
    stored = verdict("sales", FreshnessStatus.LATE, incidents=(MISSED,))
    assert freshness(stored, stored.checked_at + timedelta(minutes=15))["status"] == "late"
    view = freshness(stored, stored.checked_at + timedelta(minutes=16))
    assert view["status"] == "unknown"
    assert view["headline"] == (
        "The watchdog has not checked since 2026-11-21 15:29:20 UTC, 16 min ago. "
        "Its last verdict was late: Readers see snapshot 2120 (generation 120)."
    )
    assert len(view["incidents"]) == 1
