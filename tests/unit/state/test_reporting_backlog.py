"""How often the reporting tables may be loaded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dedup_clone.state.reporting_backlog import BURST_LOADS, ReportingBacklog, ReportingLoad, ReportingWriter
from tests.unit.state.conftest import Buckets

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


def test_rows_that_no_load_can_read_are_left_out(buckets: Buckets) -> None:
    backlog = ReportingBacklog(buckets.state)
    backlog.add("feed", "sound", {"reason": "Größe"})
    damaged = {"not_utf8": '{"reason": "\udcff"}', "cut_off": '{"reason', "no_object": "[1]"}
    for attempt, text in damaged.items():
        buckets.state.put(backlog.name("feed", attempt), text)
    sound = backlog.name("feed", "sound")
    assert backlog.rows([*backlog.names(), backlog.name("feed", "gone")]) == {sound: {"reason": "Größe"}}
