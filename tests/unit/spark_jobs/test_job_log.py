"""The job's log and its measured phases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from dedup_clone.contract.manifest import DateOutcome
from dedup_spark.execution.job_log import JobLog, Progress


def test_a_phase_that_is_named_by_an_outcome_is_logged_as_text() -> None:
    log = JobLog(cast("Any", SimpleNamespace(deliveries=(), feed="orders", generation=1)))
    with log.phase(DateOutcome.ADOPT):
        pass
    assert [repr(name) for name in log.seconds] == ["'adopt'"]


def test_no_date_is_counted_twice_at_the_moment_when_it_is_done() -> None:
    class ReportedAtEachChange(Progress):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name in ("done_count", "running_count") and "_reported" in vars(self):
                seen.append(self.estimated_done(1.0))

    seen: list[int] = []
    log = JobLog(cast("Any", SimpleNamespace(deliveries=(), feed="orders", generation=1)))
    log.progress = ReportedAtEachChange("adopt", date_count=3)
    with log.dates_at_work(3):
        pass
    assert max(seen) == 3
