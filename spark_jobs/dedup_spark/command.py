"""Runs the job from the command line. The log of a failure ends with one line that says what to do."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
from contextlib import suppress

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import DedupCloneError
from dedup_clone.contract.records import from_json
from dedup_spark import storage
from dedup_spark.execution.progress import JobLog, ProgressReport, count_running_tasks
from dedup_spark.execution.session import StartingSession, describe_failure
from dedup_spark.job import DedupJob

_logger = logging.getLogger("dedup_spark")

# A stored procedure of BigQuery has no command line: its argument `request` is JSON in this environment variable.
PROCEDURE_ARGUMENT = "BIGQUERY_PROC_PARAM.request"


def main(arguments: list[str]) -> int:
    """Run the job on the attempt that `--request` names. Return the exit code: 0 if `candidate.json` exists."""
    parser = argparse.ArgumentParser(prog="dedup_snapshot.py", description="Deduplicate deliveries into a generation.")
    procedure_argument = json.loads(os.environ.get(PROCEDURE_ARGUMENT, "null"))
    parser.add_argument(
        "--request",
        required=procedure_argument is None,
        default=procedure_argument,
        metavar="URI",
        help="attempt.json, gs://… or a path",
    )
    parser.add_argument("--end-after-s", type=float, metavar="SECONDS", help="end this process, whatever it does")
    parsed = parser.parse_args(arguments)
    uri = parsed.request
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if parsed.end_after_s is not None:
        _end_after(parsed.end_after_s)
    _logger.info("deduplicates the attempt [%s]", uri)
    session = StartingSession(f"dedup {uri}")
    failure = f"dedup of [{uri}] was interrupted"
    with ProgressReport(lambda: _task_counts(session)) as report:
        try:
            failure = _run(uri, session, report)
        finally:
            report.end_job(failure)
            with suppress(Exception):  # if Spark's process has died, there is nothing to stop, and nothing more to say
                session.stop()
    return 1 if failure else 0


def _end_after(seconds: float) -> None:
    """End this process after so many seconds. Spark and its executors end with it."""

    def end() -> None:
        _logger.error("not done after %g seconds, and no task has stopped the job: it ends", seconds)
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _run(uri: str, session: StartingSession, report: ProgressReport) -> str:
    """Run the job. Return the log line about its failure, which says what to do; empty if it succeeded."""
    try:
        attempt = read_attempt(uri)
        job_log = JobLog(attempt)
        report.begin_job(job_log, attempt.folder_uri)
        DedupJob(attempt, session, job_log).run()
        return ""
    except DedupCloneError as error:  # its message says what to do
        reason = str(error)
    except OSError as error:  # an object is absent, or the storage failed
        reason = f"{error}; correct this, unless it is temporary, then retry"
    except Exception as error:  # whatever Spark or a cloud client raises: the log still ends with one clear line
        _logger.exception("the failure in full:")
        reason = f"{describe_failure(error)}; fix the error logged above, then retry"
    failure = f"dedup of [{uri}] failed, nothing was published: {reason}"
    _logger.error("%s", failure)
    return failure


def read_attempt(uri: str) -> Attempt:
    """Return the attempt stored at `uri`.

    Raises FileNotFoundError if there is none, and ContractViolation if it is malformed.
    """
    return from_json(Attempt, storage.read_text(uri), where=uri)


def _task_counts(session: StartingSession) -> tuple[int, int] | None:
    """What `count_running_tasks` returns; None until the session has started."""
    started = session.started
    return None if started is None else count_running_tasks(started.sparkContext)
