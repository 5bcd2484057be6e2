"""Runs the real Spark dedup job for tests of the publish protocol, with the Spark configuration of the local runner.

All jobs run one after the other in one session of one child process, because imports and the start of Spark take
longer than a small job. The child process runs this module as a program. Each line of its stdin is the URI of a
attempt.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from typing import Self

from google.cloud.storage import Client

from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, local_spark_conf
from testkit.dedup_job import storage_address
from testkit.local_servers import PYTHON_PATH, REPOSITORY
from testkit.spark_submit_conf import pyspark_environment

_EXIT_CODE = "exit code of the job: "


class SparkDedupProcess:
    """The child process, which runs until the end of the `with` block. Its jobs use the storage server of `storage`."""

    def __init__(self, storage: Client) -> None:
        self._host = storage_address(storage)

    def __enter__(self) -> Self:
        conf = {**local_spark_conf("1g"), **emulator_spark_conf(self._host), "spark.master": "local[2]"}
        variables = {"PYTHONPATH": PYTHON_PATH, "STORAGE_EMULATOR_HOST": self._host}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "testkit.spark_dedup_process"],
            cwd=REPOSITORY,
            env={**os.environ, **pyspark_environment(conf), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the child's stdin. The child then ends, and with it Spark's JVM."""
        self._process.communicate(timeout=60)

    def run(self, request_uri: str) -> None:
        """Run the job on an attempt. Raises AssertionError, with the job's output, if it fails."""
        assert self._process.stdin
        assert self._process.stdout
        print(request_uri, file=self._process.stdin, flush=True)
        output: list[str] = []
        for line in self._process.stdout:
            if line.startswith(_EXIT_CODE):
                assert line == f"{_EXIT_CODE}0\n", "".join(output)
                return
            output.append(line)
        raise AssertionError(f"the process that runs the jobs has ended: {''.join(output)}")


def main() -> None:
    """Run a job for each line of stdin. After a job's output, print a line with its exit code."""
    from dedup_spark.command import read_attempt
    from dedup_spark.execution.progress import JobLog
    from dedup_spark.execution.session import start_session
    from dedup_spark.job import DedupJob

    # With a session for each job, Spark would start its Python workers anew, whose imports cost more than a small job.
    session = start_session("tests")
    for line in sys.stdin:
        code = 0
        try:
            attempt = read_attempt(line.strip())
            DedupJob(attempt, lambda: session, JobLog(attempt)).run()
        except Exception:
            traceback.print_exc()
            code = 1
        print(f"{_EXIT_CODE}{code}", flush=True)


if __name__ == "__main__":
    main()
