"""A release with the real `gcloud storage`, against the storage emulator behind the stack's door."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deploy.release.release import ReleaseFailed, run_command
from devstack.stack.ports import any_free_port
from testkit.local_servers import start_process, stop_process
from tests.contract.release.conftest import ReleaseSetup

needs_gcloud = pytest.mark.skipif(shutil.which("gcloud") is None, reason="the tool gcloud is not installed")


@pytest.fixture
def door(storage_address: str, tmp_path: Path) -> Iterator[str]:
    port = any_free_port()
    command = [sys.executable, "-m", "devstack.stack.gcloud_proxy"]
    options = ["--port", str(port), "--storage", f"http://{storage_address}"]
    url = f"http://127.0.0.1:{port}"
    process = start_process([*command, *options], f"{url}/_internal/healthcheck", tmp_path / "door.log")
    yield url
    stop_process(process)


@needs_gcloud
@pytest.mark.exhaustive
def test_gcloud_lays_and_deletes_what_the_plan_says(
    setup: ReleaseSetup, door: str, gcloud_environment: dict[str, str]
) -> None:
    def run(command: Sequence[str], text: str = "") -> None:
        environment = {**gcloud_environment, "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{door}/storage/v1/"}
        done = subprocess.run(
            command, input=text, env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr

    setup.commands = run  # type: ignore[assignment]
    assert len(setup.deploy()) > 50
    (setup.repository / "dags" / "rollback.py").unlink()
    assert setup.deploy() == [("delete", setup.buckets.environment.uri("dags/rollback.py"))]
    assert setup.deploy() == []


def test_a_missing_tool_is_named_with_what_to_do() -> None:
    with pytest.raises(ReleaseFailed, match=r"no-such-tool.*install the Google Cloud CLI"):
        run_command(["no-such-tool", "storage"])


def test_the_words_of_a_command_that_fails_are_reported() -> None:
    with pytest.raises(ReleaseFailed, match=r"(?s)bucket is gone.*deploy again"):
        run_command(["sh", "-c", "echo 'the bucket is gone' >&2; exit 3"])
