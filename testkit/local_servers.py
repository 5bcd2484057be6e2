"""Starts fake-gcs-server and the BigQuery stand-in on free local ports, and stops them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from devstack.http_calls import call, says_healthy
from devstack.stack.parts import fake_gcs_command
from devstack.stack.ports import any_free_port

REPOSITORY = Path(__file__).resolve().parents[1]
# PYTHONPATH of a process that runs the Spark job or a module of this repository.
PYTHON_PATH = os.pathsep.join(str(folder) for folder in (REPOSITORY / "spark_jobs", REPOSITORY / "plugins", REPOSITORY))
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 10
POLL_INTERVAL_S = 0.02


def start_process(
    command: Sequence[str], health_url: str, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a server, and return once `health_url` answers with success.

    Raises RuntimeError, with the log, if the server ends before, or takes longer than START_TIMEOUT_S.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=output, stderr=output, env={**os.environ, **(environment or {})}
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    # Another program's server may answer at the port if this one has ended because the port was taken.
    while not says_healthy(health_url) or process.poll() is not None:
        if process.poll() is not None or time.monotonic() > deadline:
            stop_process(process)
            raise RuntimeError(f"[{' '.join(command)}] did not become healthy, its log: {log.read_text()[-4000:]}")
        time.sleep(POLL_INTERVAL_S)
    return process


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to a process, and SIGKILL if it still runs after STOP_TIMEOUT_S. Does nothing if it has ended."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def start_fake_gcs(tmp_path: Path, *buckets: str) -> Iterator[str]:
    """Run fake-gcs-server with these buckets, in memory. Yields its address as host:port. Its log is in `tmp_path`."""
    port = any_free_port()
    address = f"127.0.0.1:{port}"
    tmp_path.mkdir(parents=True, exist_ok=True)
    command = fake_gcs_command(port, "memory")
    environment = {"GOMEMLIMIT": "512MiB", "GOGC": "400"}
    process = start_process(command, f"http://{address}/_internal/healthcheck", tmp_path / "fake-gcs.log", environment)
    try:
        for bucket in buckets:
            call("POST", f"http://{address}/storage/v1/b?project=local-dev", body={"name": bucket})
        yield address
    finally:
        stop_process(process)


def launch_stand_in(tmp_path: Path, object_store: str | None, port: int, *options: str) -> subprocess.Popen[bytes]:
    """Start a BigQuery stand-in that stores its tables in `tmp_path`/bigquery. The caller must stop or kill it.

    `object_store`: the address, as host:port, of the server that has the objects of gs:// URIs. `options`: more options
    of `python -m bigquery_standin`.
    """
    data = tmp_path / "bigquery"
    command = [
        sys.executable, "-m", "bigquery_standin", "--host", "127.0.0.1", "--port", str(port), "--data", str(data),
        *options,
    ]  # fmt: skip
    environment = {"STORAGE_EMULATOR_HOST": f"http://{object_store}"} if object_store else {}
    return start_process(command, f"http://127.0.0.1:{port}/_standin/health", tmp_path / "stand-in.log", environment)


@contextmanager
def start_stand_in(tmp_path: Path, object_store: str | None = None, *options: str) -> Iterator[str]:
    """Run a BigQuery stand-in on a free port as `launch_stand_in` does, and yield its address as host:port."""
    port = any_free_port()
    process = launch_stand_in(tmp_path, object_store, port, *options)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        stop_process(process)
