"""How often the reporting tables may be loaded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dedup_clone.state.reporting_backlog import BURST_LOADS, ReportingLoad, ReportingWriter

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
LOADS_OF_A_TABLE_PER_DAY = 1_500  # docs/bigquery/quotas, load jobs


def test_a_writer_that_is_always_asked_keeps_to_the_limit_of_a_day() -> None:
    writer, loads = ReportingWriter(None, None, BURST_LOADS, None), []
    for second in range(0, 2 * 86_400, 3):
        now = NOW + timedelta(seconds=second)
        if writer.loads_allowed(now) >= 1:
            writer = writer.begin(ReportingLoad(str(second), "h", now, None, ()))
            loads.append(second)
    busiest = max(sum(start <= other < start + 86_400 for other in loads) for start in loads[::100])
    assert LOADS_OF_A_TABLE_PER_DAY * 0.8 < busiest <= LOADS_OF_A_TABLE_PER_DAY


def test_another_workers_clock_that_is_ahead_takes_no_budget() -> None:
    writer = ReportingWriter(None, NOW + timedelta(hours=1), 5.0, None)
    assert writer.loads_allowed(NOW) == 5
