"""Runs the job from the command line. The log of a failure ends with one line that says what to do."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from contextlib import suppress

from dedup_clone.contract.errors import DedupCloneError
from dedup_spark.execution.job_log import JobLog
from dedup_spark.execution.progress_report import ProgressReport, count_running_tasks
from dedup_spark.execution.session import StartingSession, describe_failure
from dedup_spark.job import DedupJob
from dedup_spark.job_request import read_request

_logger = logging.getLogger("dedup_spark")

# A stored procedure of BigQuery has no command line: its argument `request` is JSON in this environment variable.
PROCEDURE_ARGUMENT = "BIGQUERY_PROC_PARAM.request"


def main(arguments: list[str]) -> int:
    """Run the job on the request that `--request` names. Return the exit code: 0 if `candidate.json` exists."""
    parser = argparse.ArgumentParser(prog="dedup_snapshot.py", description="Deduplicate deliveries into a generation.")
    procedure_argument = json.loads(os.environ.get(PROCEDURE_ARGUMENT, "null"))
    parser.add_argument(
        "--request",
        required=procedure_argument is None,
        default=procedure_argument,
        metavar="URI",
        help="request.json, gs://… or a path",
    )
    uri = parser.parse_args(arguments).request
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    session = StartingSession(f"dedup {uri}")
    try:
        request = read_request(uri)
        job_log = JobLog(request)
        with ProgressReport(job_log, request.attempt_uri, lambda: _task_counts(session)):
            DedupJob(request, session, job_log).run()
        return 0
    except DedupCloneError as error:  # its message says what to do
        _logger.error("dedup of [%s] failed, nothing was published: %s", uri, error)
    except OSError as error:  # an object is absent, or the storage failed
        advice = "correct this, unless it is temporary, then retry"
        _logger.error("dedup of [%s] failed, nothing was published: %s; %s", uri, error, advice)
    except Exception as error:  # whatever Spark or a cloud client raises: the log still ends with one clear line
        _logger.exception("the failure in full:")
        _logger.error(
            "dedup of [%s] failed, nothing was published: %s",
            uri,
            f"{describe_failure(error)}; fix the error logged above, then retry",
        )
    finally:
        with suppress(Exception):  # if Spark's process has died, there is nothing to stop, and nothing more to say
            session.stop()
    return 1


def _task_counts(session: StartingSession) -> tuple[int, int] | None:
    """What `count_running_tasks` returns; None until the session has started."""
    started = session.started
    return None if started is None else count_running_tasks(started.sparkContext)
