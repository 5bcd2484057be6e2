"""A release changes what differs, knows its own objects, and leaves everybody else's alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dedup_clone.contract.errors import ConfigurationError, LostRace
from tests.contract.release.conftest import ReleaseSetup


def test_a_second_release_changes_nothing(setup: ReleaseSetup) -> None:
    first = setup.deploy()
    assert {action for action, _ in first} == {"create"}
    commands = len(setup.commands.run)

    assert setup.deploy() == []
    assert len(setup.commands.run) == commands


def test_an_edited_sql_file_changes_one_object(setup: ReleaseSetup) -> None:
    setup.deploy()
    statement = setup.repository / "sql" / "publish" / "swap_target.sql"
    statement.write_text(statement.read_text() + "-- a remark\n")

    assert setup.deploy() == [("replace", setup.buckets.environment.uri("dags/sql/publish/swap_target.sql"))]
    stored = setup.buckets.environment.read("dags/sql/publish/swap_target.sql")
    assert stored is not None
    assert stored.text == statement.read_text()


def test_templates_of_sql_and_hidden_files_that_airflow_reads_are_shipped(setup: ReleaseSetup) -> None:
    setup.deploy()
    names = setup.buckets.names()
    assert setup.buckets.environment.uri("dags/sql/engines/bigquery/qualify.sql.jinja") in names
    assert setup.buckets.environment.uri("plugins/.airflowignore") in names


def test_the_dags_are_told_where_the_spark_code_is(setup: ReleaseSetup) -> None:
    setup.deploy()
    record = setup.buckets.environment.read("dags/spark_code.json")
    assert record is not None
    assert set(json.loads(record.text).values()) <= setup.buckets.names()


def test_what_left_the_repository_leaves_the_bucket_and_foreign_objects_stay(setup: ReleaseSetup) -> None:
    setup.deploy()
    foreign = setup.buckets.environment.uri("dags/of_another_team.py")
    setup.buckets.environment.put("dags/of_another_team.py", "print()")
    (setup.repository / "dags" / "rollback.py").unlink()

    assert setup.deploy() == [("delete", setup.buckets.environment.uri("dags/rollback.py"))]
    assert foreign in setup.buckets.names()


def test_a_foreign_object_in_the_way_is_replaced_only_when_told_to(setup: ReleaseSetup) -> None:
    setup.buckets.environment.put("dags/publish.py", "print('another DAG')")

    with pytest.raises(ConfigurationError, match=r"dags/publish\.py.*TAKE_OVER=1"):
        setup.deploy()
    assert setup.commands.run == []

    assert ("replace", setup.buckets.environment.uri("dags/publish.py")) in setup.deploy(take_over=True)
    assert setup.deploy() == []


def test_what_somebody_edited_in_the_bucket_is_laid_again(setup: ReleaseSetup) -> None:
    setup.deploy()
    setup.buckets.environment.put("dags/publish.py", "print('edited in the bucket')")
    assert setup.deploy() == [("replace", setup.buckets.environment.uri("dags/publish.py"))]


def test_dags_come_after_everything_that_they_read(setup: ReleaseSetup) -> None:
    setup.deploy()
    buckets = [command[-1] for command in setup.commands.run]
    laid = [sorted(Path(path).name for path in command[4:-1]) for command in setup.commands.run]
    assert buckets[0] == f"gs://{setup.buckets.state.bucket}/"
    assert laid == [["spark-code"], ["dags", "plugins"], ["dags"]]


def test_a_release_that_died_is_finished_by_the_next(setup: ReleaseSetup) -> None:
    setup.commands.fail_at = 2
    with pytest.raises(ConnectionError):
        setup.deploy()
    setup.commands.fail_at = None
    (setup.repository / "sql" / "publish" / "swap_target.sql").write_text("SELECT 1\n")

    changed = setup.deploy()  # the edited file was laid already, and is known as ours
    assert ("replace", setup.buckets.environment.uri("dags/sql/publish/swap_target.sql")) in changed
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

    def edit(text: str) -> list[tuple[str, str]]:
        job = setup.repository / "spark_jobs" / "dedup_spark" / "__init__.py"
        job.write_text(f'"""{text}"""\n')
        return setup.deploy()

    setup.deploy()
    laid_by_one = spark_objects()
    assert not any(action == "delete" for action, _ in edit("second"))
    assert spark_objects() > laid_by_one
    of_two = spark_objects()
    assert setup.deploy() == []
    assert any(action == "delete" for action, _ in edit("third"))
    assert spark_objects() == of_two


def test_a_file_of_a_kind_that_nobody_reads_is_named(setup: ReleaseSetup) -> None:
    (setup.repository / "dags" / "publish.py.orig").write_text("")
    with pytest.raises(ConfigurationError, match=r"publish\.py\.orig.*delete or move it"):
        setup.release()


def test_compiled_modules_are_not_shipped(setup: ReleaseSetup) -> None:
    cache = setup.repository / "dags" / "__pycache__"
    cache.mkdir()
    (cache / "publish.cpython-311.pyc").write_bytes(b"")
    setup.deploy()
    assert not any("__pycache__" in name for name in setup.buckets.names())
