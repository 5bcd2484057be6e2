"""What the job says of an error of Spark or the storage."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from dedup_spark import command
from dedup_spark.execution.session import describe_failure

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


def stop_lost_spark() -> NoReturn:
    raise ConnectionRefusedError


@pytest.mark.parametrize("stop", [lambda: None, stop_lost_spark])
def test_the_last_line_says_what_to_do_about_a_missing_object(
    stop: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(command, "StartingSession", lambda name: SimpleNamespace(started=None, stop=stop))
    assert command.main(["--request", f"{tmp_path}/request.json"]) == 1
    last = caplog.records[-1].getMessage()
    assert "No such file or directory" in last
    assert last.endswith("; correct this, unless it is temporary, then retry")
