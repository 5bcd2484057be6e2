"""The real dedup job for tests of the protocol, on the emulated storage and with the settings that the DAGs submit.

Run as a program it is the process of the jobs: a request's URI comes on each line of stdin. Imports and Spark's JVM,
which cost more than a small job, start once for all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Self
from urllib.parse import urlsplit

from google.cloud.storage import Client

from dedup_clone.orchestration.spark_conf import emulator_spark_conf, local_spark_conf
from tests.processes import PYTHON_PATH, REPOSITORY
from tests.spark.submitting import environment

_EXIT_CODE = "exit code of the job: "


class RealDedup:
    """Jobs over the storage that the client speaks to. Started when it is entered, gone when it is left."""

    def __init__(self, storage: Client) -> None:
        address = urlsplit(storage._connection.API_BASE_URL)
        self._host = f"{address.scheme}://{address.netloc}"

    def __enter__(self) -> Self:
        conf = {**local_spark_conf("1g"), **emulator_spark_conf(self._host), "spark.master": "local[2]"}
        place = {"PYTHONPATH": PYTHON_PATH, "STORAGE_EMULATOR_HOST": self._host}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.publish.real_dedup"],
            cwd=REPOSITORY,
            env={**os.environ, **environment(conf), **place},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        """Python ends with its input, and Spark's JVM with Python."""
        self._process.communicate(timeout=60)

    def run(self, request_uri: str) -> None:
        """Fails with the job's own output."""
        assert self._process.stdin
        assert self._process.stdout
        print(request_uri, file=self._process.stdin, flush=True)
        said: list[str] = []
        for line in self._process.stdout:
            if line.startswith(_EXIT_CODE):
                assert line == f"{_EXIT_CODE}0\n", "".join(said)
                return
            said.append(line)
        raise AssertionError(f"the process of the jobs has ended: {''.join(said)}")


def main() -> None:
    from dedup_spark import command

    for line in sys.stdin:
        code = command.main(["--request", line.strip()])
        print(f"{_EXIT_CODE}{code}", flush=True)


if __name__ == "__main__":
    main()
