"""Runs the Spark dedup job for tests of the protocol, on emulated storage and with the DAGs' Spark configuration.

All jobs run in one process, because imports and the start of Spark take longer than a small job. Run as a program,
this module is that process: it reads the URI of one request from each line of stdin.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Self
from urllib.parse import urlsplit

from google.cloud.storage import Client

from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, local_spark_conf
from testkit.local_servers import PYTHON_PATH, REPOSITORY
from testkit.spark_submit_conf import pyspark_environment

_EXIT_CODE = "exit code of the job: "


class SparkDedupProcess:
    """A context manager whose process runs until the `with` block ends. Jobs use the client's storage."""

    def __init__(self, storage: Client) -> None:
        address = urlsplit(storage._connection.API_BASE_URL)
        self._host = f"{address.scheme}://{address.netloc}"

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
        """Close the input of the process, after which Python and then Spark's JVM end."""
        self._process.communicate(timeout=60)

    def run(self, request_uri: str) -> None:
        """Raises AssertionError, with the job's output, when the job fails."""
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
    from dedup_spark import command

    for line in sys.stdin:
        code = command.main(["--request", line.strip()])
        print(f"{_EXIT_CODE}{code}", flush=True)


if __name__ == "__main__":
    main()
