"""The real dedup job for tests of the protocol: a process of its own on the emulated storage, as the DAGs submit it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from google.cloud.storage import Client

from dedup_clone.orchestration.spark_conf import emulator_spark_conf, local_spark_conf

REPOSITORY = Path(__file__).resolve().parents[3]


def submit_dedup(storage: Client, request_uri: str) -> None:
    """Runs the job over the storage that the client speaks to; fails with the job's own output."""
    address = urlsplit(storage._connection.API_BASE_URL)
    host = f"{address.scheme}://{address.netloc}"
    conf = {**local_spark_conf("1g"), **emulator_spark_conf(host), "spark.master": "local[2]"}
    options = [text for key, value in conf.items() for text in ("--conf", f"{key}={value}")]
    folder = Path(sys.executable).parent
    job = [str(REPOSITORY / "spark_jobs" / "dedup_snapshot.py"), "--request", request_uri]
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = os.pathsep.join(str(REPOSITORY / name) for name in ("plugins", "spark_jobs"))
    environment["STORAGE_EMULATOR_HOST"] = host
    done = subprocess.run(
        [str(folder / "spark-submit"), *options, *job],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
