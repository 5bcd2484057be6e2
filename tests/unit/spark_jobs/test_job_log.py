"""The job's log and its measured phases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from dedup_clone.contract.manifest import DateOutcome
from dedup_spark.execution.job_log import JobLog


def test_a_phase_that_is_named_by_an_outcome_is_logged_as_text() -> None:
    log = JobLog(cast("Any", SimpleNamespace(deliveries=(), feed="orders", generation=1)))
    with log.phase(DateOutcome.ADOPT):
        pass
    assert [repr(name) for name in log.seconds] == ["'adopt'"]
