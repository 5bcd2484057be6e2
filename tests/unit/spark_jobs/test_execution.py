"""What the driver logs, reports and says of failures."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from dedup_clone.contract.manifest import DateOutcome
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.page.feed_reader import JobProgress
from dedup_spark import command, storage
from dedup_spark.execution import progress
from dedup_spark.execution.progress import FILE_NAME, INTERVAL_S, JobLog, ProgressReport
from dedup_spark.execution.session import describe_failure
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS


def rows(snapshot_id: int, dates: int) -> list[dict[str, Any]]:
    """One row on each of so many dates."""
    values = {"store_id": 1, "attribute_id": 1, "attr_value": 20, "update_id": snapshot_id}
    days = [date(2026, 3, 31) - timedelta(days=number) for number in range(dates)]
    return [{"date": day, "product_id": number, **values} for number, day in enumerate(days)]


PREFIX = "feed=orders snapshot_id=- generation=1 at work for 0 s, "


@pytest.fixture(autouse=True)
def clock_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the lines below would name later seconds."""
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 0.0))


def log_of_orders() -> JobLog:
    return JobLog(cast("Any", SimpleNamespace(deliveries=(), feed="orders", generation=1)))


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "dedup_spark"]


def report_times(count: int, log: JobLog, uri: str, task_counts: Callable[[], tuple[int, int] | None]) -> list[float]:
    """Run a report until it has reported so often. Returns how long it waited each time."""
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) > count

    report = ProgressReport(task_counts, wait)
    report.begin_job(log, uri)
    with report:
        pass
    return waited


def test_each_line_says_the_phase_and_how_many_tasks_are_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log, counts = log_of_orders(), iter([None, (1, 4), (0, 0), (4, 4)])
    with log.phase(DateOutcome.ADOPT):
        waited = report_times(4, log, str(tmp_path), lambda: next(counts))
    with log.phase("verify"):
        report_times(1, log, str(tmp_path), lambda: (0, 0))
    assert lines_of(caplog) == [
        f"{PREFIX}phase [start]: Spark starts",
        f"{PREFIX}phase [adopt], 1 of 4 tasks of the running Spark jobs done",
        f"{PREFIX}phase [adopt]",  # no job runs at this moment
        f"{PREFIX}phase [adopt], 4 of 4 tasks of the running Spark jobs done",
        f"{PREFIX}phase [verify]",
    ]
    assert [round(seconds) for seconds in waited] == [INTERVAL_S * number for number in (1, 2, 3, 4, 5)]


def test_the_page_finds_the_numbers_below_the_folder_of_the_attempt(tmp_path: Path) -> None:
    log = log_of_orders()
    with log.phase("changes"):
        report_times(1, log, str(tmp_path), lambda: (1, 2))
    stored = from_json(JobProgress, (tmp_path / FILE_NAME).read_text(), where=FILE_NAME)
    assert (stored.phase, stored.done, stored.of) == ("changes", 1, 2)
    assert abs(datetime.now(UTC) - stored.at) < timedelta(minutes=1)


def test_lines_go_on_where_storage_and_spark_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "file").write_text("")
    answers = iter([(0, 1), ConnectionError("Spark is lost"), (0, 1)])

    def task_counts() -> tuple[int, int]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    report_times(3, log_of_orders(), str(tmp_path / "file"), task_counts)
    levels = [record.levelname for record in caplog.records if record.name == "dedup_spark"]
    assert levels == ["INFO", "WARNING", "WARNING", "INFO"]  # that the file cannot be written is said once
    assert f"cannot write [{tmp_path}/file/{FILE_NAME}]" in caplog.text


def test_the_command_reports_while_it_reads_the_request_and_stops_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def wait_for_line(text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)

    def read_attempt(uri: str) -> NoReturn:
        wait_for_line("at work for 0 s: the attempt is read")
        raise OSError("absent")

    monkeypatch.setattr(progress, "INTERVAL_S", 0.01)
    monkeypatch.setattr(command, "read_attempt", read_attempt)

    def stop_lost_spark() -> NoReturn:
        wait_for_line("at work for 0 s: Spark stops")
        raise ConnectionRefusedError

    session = SimpleNamespace(started=None, stop=stop_lost_spark)
    monkeypatch.setattr(command, "StartingSession", lambda name: session)
    assert command.main(["--request", str(tmp_path / "attempt.json")]) == 1
    lines = lines_of(caplog)
    assert lines[0].startswith("deduplicates the attempt [")
    assert "at work for 0 s: the attempt is read" in lines
    assert lines[-1].startswith("at work for 0 s: Spark stops; dedup of [")
    assert lines[-1].endswith("nothing was published: absent; correct this, unless it is temporary, then retry")


def test_the_command_reports_from_the_start_of_spark_to_the_end_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)
    attempt = area.attempt([area.land(1, rows(1, 1))])
    uri, stored_uri = storage.join(attempt.folder_uri, "attempt.json"), storage.join(attempt.folder_uri, FILE_NAME)
    storage.write_text(uri, to_json(attempt))
    reported, replace = Event(), storage.replace_text

    def store(uri: str, text: str, *, timeout_s: float) -> None:
        replace(uri, text, timeout_s=timeout_s)
        reported.set()

    monkeypatch.setattr(storage, "replace_text", store)
    monkeypatch.setattr(progress, "INTERVAL_S", 0.01)
    monkeypatch.setattr(command, "StartingSession", lambda name: SimpleNamespace(started=None, stop=lambda: None))
    monkeypatch.setattr(command.DedupJob, "run", lambda job: reported.wait(60))
    assert command.main(["--request", uri]) == 0
    assert json.loads(storage.read_text(stored_uri))["phase"] == "start"


TRACE = "\tat org.apache.spark.Foo.run(Foo.scala:1)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
LOST = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most "
    "recent failure: Lost task 0.3 in stage 1.0 (TID 9) (worker executor 2): ExecutorLostFailure (executor 2 exited)"
)
STOPPED = (
    "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n"
    f"This stopped SparkContext was created at:\n\n{TRACE}\nThe currently active SparkContext was created at:\n\n"
    "(No active SparkContext.)\n"
)


def py4j_text(java_text: str) -> str:
    return f"An error occurred while calling o48.save.\n: {java_text}\n{TRACE}"


@pytest.mark.parametrize(
    ("text", "described"),
    [
        (
            py4j_text(f"{LOST}\n{TRACE}Caused by: a.SparkException: worker crashed\n{TRACE}Caused by: b.EOFException"),
            "Caused by: a.SparkException: worker crashed; Caused by: b.EOFException",
        ),
        (py4j_text(f"{LOST}\n{TRACE}Caused by: b.EOFException"), f"{LOST}; Caused by: b.EOFException"),
        (py4j_text(f"{LOST}\n{TRACE}Caused by: a.IOException: disk full"), "Caused by: a.IOException: disk full"),
        (py4j_text(f"{LOST}\nDriver stacktrace:"), LOST),
        (py4j_text(STOPPED), "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."),
        ("first\none line", "one line"),
        ("", "ValueError"),
    ],
)
def test_a_cause_without_a_message_is_named_with_what_it_led_to(text: str, described: str) -> None:
    assert describe_failure(ValueError(text)) == described
