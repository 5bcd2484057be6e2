"""A release changes what differs, knows its own objects, and leaves everybody else's alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dedup_clone.contract.errors import ConfigurationError, LostRace
from deploy.release.release import ReleaseFailed, run_command
from devstack.stack.ports import any_free_port
from testkit.local_servers import start_process, stop_process
from tests.contract.release.conftest import ReleaseSetup
from tests.shared.required_tools import require_gcloud

SWAP = "sql/publish/swap_target.sql"


def test_a_second_release_changes_only_what_was_edited_in_the_repository_or_the_bucket(setup: ReleaseSetup) -> None:
    (setup.repository / "dags" / "__pycache__").mkdir()
    (setup.repository / "dags" / "__pycache__" / "publish.cpython-311.pyc").write_bytes(b"")
    assert {action for action, _ in setup.deploy()} == {"create"}
    names, environment = setup.buckets.names(), setup.buckets.environment
    assert {
        environment.uri("dags/sql/engines/bigquery/qualify.sql.jinja"),
        environment.uri("plugins/.airflowignore"),
    } <= names
    assert not any("__pycache__" in name for name in names)
    record = environment.read("dags/spark_code.json")
    assert record is not None
    assert set(json.loads(record.text).values()) <= names
    # DAGs come after everything that they read.
    assert setup.commands.run[0][-1] == f"gs://{setup.buckets.state.bucket}/"
    laid = [sorted(Path(path).name for path in command[4:-1]) for command in setup.commands.run]
    assert laid == [["spark-code"], ["dags", "plugins"], ["dags"]]

    assert setup.deploy() == []
    assert len(setup.commands.run) == len(laid)
    statement = setup.repository / SWAP
    statement.write_text(statement.read_text() + "-- a remark\n")
    assert setup.deploy() == [("replace", environment.uri(f"dags/{SWAP}"))]
    stored = environment.read(f"dags/{SWAP}")
    assert stored is not None
    assert stored.text == statement.read_text()
    environment.put("dags/publish.py", "print('edited in the bucket')")
    assert setup.deploy() == [("replace", environment.uri("dags/publish.py"))]


def test_what_left_the_repository_leaves_the_bucket_and_foreign_objects_stay(setup: ReleaseSetup) -> None:
    environment = setup.buckets.environment
    environment.put("dags/publish.py", "print('another DAG')")
    with pytest.raises(ConfigurationError, match=r"dags/publish\.py.*TAKE_OVER=1"):
        setup.deploy()
    assert setup.commands.run == []
    assert ("replace", environment.uri("dags/publish.py")) in setup.deploy(take_over=True)
    environment.put("dags/of_another_team.py", "print()")
    (setup.repository / "dags" / "rollback.py").unlink()
    assert setup.deploy() == [("delete", environment.uri("dags/rollback.py"))]
    assert environment.uri("dags/of_another_team.py") in setup.buckets.names()


def test_a_release_that_died_is_finished_by_the_next(setup: ReleaseSetup) -> None:
    setup.commands.fail_at = 2
    with pytest.raises(ConnectionError):
        setup.deploy()
    setup.commands.fail_at = None
    (setup.repository / SWAP).write_text("SELECT 1\n")
    changed = setup.deploy()  # the edited file was laid already, and is known as ours
    assert ("replace", setup.buckets.environment.uri(f"dags/{SWAP}")) in changed
    assert setup.deploy() == []


def test_of_two_releases_at_once_the_later_is_refused(setup: ReleaseSetup) -> None:
    late = setup.release()
    plan = late.plan()
    setup.deploy()
    with pytest.raises(LostRace):
        late.apply(plan)


def test_spark_code_stays_for_runs_that_were_started_with_it(setup: ReleaseSetup) -> None:
    def spark_objects() -> int:
        return sum("/spark-code/" in name for name in setup.buckets.names())

    def edit(text: str) -> set[str]:
        job = setup.repository / "spark_jobs" / "dedup_spark" / "__init__.py"
        job.write_text(f'"""{text}"""\n')
        return {action for action, _ in setup.deploy()}

    setup.deploy()
    laid_by_one = spark_objects()
    assert "delete" not in edit("second")
    of_two = spark_objects()
    assert of_two > laid_by_one
    assert setup.deploy() == []
    assert "delete" in edit("third")
    assert spark_objects() == of_two


def test_a_file_of_a_kind_that_nobody_reads_is_named(setup: ReleaseSetup) -> None:
    (setup.repository / "dags" / "publish.py.orig").write_text("")
    with pytest.raises(ConfigurationError, match=r"publish\.py\.orig"):
        setup.release()


@pytest.fixture
def door(storage_address: str, tmp_path: Path) -> Iterator[str]:
    """The stack's door to the storage emulator, which gcloud needs."""
    url = f"http://127.0.0.1:{any_free_port()}"
    options = ["--port", url.rpartition(":")[2], "--storage", f"http://{storage_address}"]
    command = [sys.executable, "-m", "devstack.stack.gcloud_proxy", *options]
    process = start_process(command, f"{url}/_internal/healthcheck", tmp_path / "door.log")
    yield url
    stop_process(process)


def test_gcloud_lays_and_deletes_what_the_plan_says(
    setup: ReleaseSetup, door: str, gcloud_environment: dict[str, str]
) -> None:
    """The real tool, once."""
    require_gcloud()
    environment = {**gcloud_environment, "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{door}/storage/v1/"}

    def run(command: Sequence[str], text: str = "") -> None:
        done = subprocess.run(
            command, input=text, env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr

    setup.deploy()
    setup.commands = run  # type: ignore[assignment]
    (setup.repository / "dags" / "rollback.py").unlink()
    (setup.repository / SWAP).write_text("SELECT 1\n")
    assert len(setup.deploy()) == 2
    assert setup.deploy() == []


def test_a_tool_that_is_missing_or_fails_is_reported_with_its_words() -> None:
    with pytest.raises(ReleaseFailed, match=r"no-such-tool.*install the Google Cloud CLI"):
        run_command(["no-such-tool", "storage"])
    with pytest.raises(ReleaseFailed, match="bucket is gone"):
        run_command(["sh", "-c", "echo 'the bucket is gone' >&2; exit 3"])
