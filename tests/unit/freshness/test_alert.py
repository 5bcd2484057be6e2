"""The text of alerts, the form of durations, and the metrics of a feed."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from dedup_clone.freshness.durations import format_duration
from dedup_clone.freshness.incident import STOPPED_BY_CHECK, Moment
from dedup_clone.freshness.metrics import feed_metrics
from dedup_clone.settings.freshness_settings import ExpectedArrivals
from dedup_clone.state.audits import AuditOutcome
from tests.shared.freshness_states import NOW, audits, feed_state, minutes, record, waits
from tests.shared.incidents import BEGAN


def test_the_beginning() -> None:
    assert BEGAN.text.splitlines() == [
        "[sales] ALERT: freshness SLA missed (promise_missed)",
        "What: snapshot 8 <b>is</b> not live.",
        "Since: 2026-06-15 12:00:00 UTC",
        "Readers see: snapshot 7",
        "Next: open the run.",
        "Runbook: https://host/runbook.md#promise_missed",
        "Airflow: https://airflow/dags/sales_publish",
    ]


def test_the_end() -> None:
    ended = dataclasses.replace(BEGAN, moment=Moment.ENDED, ended_at=NOW + minutes(90))
    assert ended.title == "[sales] RECOVERED: freshness SLA missed (promise_missed)"
    assert "Lasted: 2026-06-15 12:00:00 UTC to 2026-06-15 13:30:00 UTC (90 min)" in ended.text
    assert "Next: nothing." in ended.text


def test_markup_in_data_is_text_in_mail() -> None:
    assert "&lt;b&gt;is&lt;/b&gt;" in BEGAN.html
    assert "<b>" not in BEGAN.html


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (45.4, "45 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7260, "2 h 01 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


def test_durations_of_days() -> None:
    assert format_duration(timedelta(days=3, hours=5)) == "3 d 5 h"


def test_metrics_of_a_feed() -> None:
    daily = ExpectedArrivals(times=("11:00",))
    known = feed_state(expected=daily, waiting=(waits(minutes(3)), waits(minutes(2), 9)), arrivals=(NOW - minutes(60),))
    assert feed_metrics(NOW, known, 2) == {
        "deliveries_waiting": 2.0,
        "waiting_seconds": 180.0,
        "promise_seconds": 3600.0,
        "sla_share_used": 0.05,
        "incidents_open": 2.0,
        "arrivals_overdue": 0.0,
        "lag_seconds": 1800.0,
        "rows": 1000.0,
        "rows_new": 10.0,
        "rows_changed": 5.0,
        "rows_kept": 2.0,
        "cost_usd": 0.0002,
        "bytes_billed": 20.0,
        "age_seconds": 7200.0,
        "generation": 7.0,
    }


def test_metrics_of_the_content_audit() -> None:
    found = feed_metrics(NOW, feed_state(audits=audits(AuditOutcome.EQUAL, AuditOutcome.UNEQUAL)), 1)
    assert (found["partitions_unequal"], found["audit_age_seconds"]) == (1.0, 3600.0)


def test_what_is_not_known_is_no_metric() -> None:
    unknown = feed_state(live=None, history=())
    assert set(feed_metrics(NOW, unknown, 0)) == {
        "deliveries_waiting",
        "waiting_seconds",
        "promise_seconds",
        "sla_share_used",
        "incidents_open",
    }
    assert "rows_changed" not in feed_metrics(NOW, feed_state(history=(record(changed_rows=None),)), 0)


def test_the_title_says_that_a_check_stopped_the_publish() -> None:
    stopped = dataclasses.replace(BEGAN, what=f"snapshot 8 is not live. {STOPPED_BY_CHECK}.")
    assert stopped.title == "[sales] ALERT: a check stopped the publish, freshness SLA missed (promise_missed)"
