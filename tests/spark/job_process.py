"""Dedup jobs in a process that a test may kill: an attempt's URI comes on each line of stdin, an answer on stdout.

Run as a program it is that process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import Self

import psutil

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json, to_json
from dedup_spark import storage
from dedup_spark.command import read_attempt
from dedup_spark.execution.progress import JobLog
from dedup_spark.job import DedupJob
from testkit.local_servers import PYTHON_PATH, REPOSITORY
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.local_session import local_session

_DAEMON = "dedup_spark.execution.worker_daemon"
DONE, FAILED = "done", "failed"


class JobProcess:
    """Started when it is entered, gone when it is left."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.job_process"],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": PYTHON_PATH},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        below = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        self._process.communicate()
        for process in below:
            if process.is_running():
                process.kill()
        psutil.wait_procs(below, timeout=30)

    def begin(self, request_uri: str) -> None:
        assert self._process.stdin
        print(request_uri, file=self._process.stdin, flush=True)

    def answer(self) -> str:
        """Of the job begun last; empty when the process has died."""
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def kill_driver(self) -> None:
        self._process.kill()

    def workers(self) -> list[psutil.Process]:
        """Those that Spark's Python daemon has forked."""
        below = psutil.Process(self._process.pid).children(recursive=True)
        asked = []
        for process in below:
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                asked.append((process, process.as_dict(["ppid", "cmdline"])))
        daemons = {process.pid for process, facts in asked if _DAEMON in (facts["cmdline"] or ())}
        return [process for process, facts in asked if process.pid in daemons and facts["ppid"] in daemons]

    def kill_workers(self) -> None:
        for worker in self.workers():
            with suppress(psutil.NoSuchProcess):
                worker.kill()


class ProcessArea(SparkJobFeed):
    """A feed whose jobs run in `process`."""

    process: JobProcess

    def begin(self, attempt: Attempt) -> None:
        uri = storage.join(attempt.folder_uri, "attempt.json")
        storage.write_text(uri, to_json(attempt))
        self.process.begin(uri)

    def run(self, attempt: Attempt) -> Candidate:
        self.begin(attempt)
        answer = self.process.answer()
        assert answer == DONE, f"the job answered [{answer}]"
        uri = storage.join(attempt.folder_uri, "candidate.json")
        return from_json(Candidate, storage.read_text(uri), where=uri)


def main() -> None:
    session = local_session("killed jobs")
    for line in sys.stdin:
        attempt = read_attempt(line.strip())
        try:
            DedupJob(attempt, lambda: session, JobLog(attempt)).run()
        except Exception:  # the test asks what is left behind, not why
            print(FAILED, flush=True)
        else:
            print(DONE, flush=True)


if __name__ == "__main__":
    main()
