"""A release changes what differs, knows its own objects, and leaves everybody else's alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dedup_clone.contract.errors import ConfigurationError, LostRace
from tests.contract.release.conftest import World


def test_a_second_release_changes_nothing(world: World) -> None:
    first = world.deploy()
    assert {action for action, _ in first} == {"create"}
    commands = len(world.commands.run)

    assert world.deploy() == []
    assert len(world.commands.run) == commands


def test_an_edited_sql_file_changes_one_object(world: World) -> None:
    world.deploy()
    statement = world.repository / "sql" / "publish" / "swap_target.sql"
    statement.write_text(statement.read_text() + "-- a remark\n")

    assert world.deploy() == [("replace", world.buckets.environment.uri("dags/sql/publish/swap_target.sql"))]
    stored = world.buckets.environment.read("dags/sql/publish/swap_target.sql")
    assert stored is not None
    assert stored.text == statement.read_text()


def test_templates_of_sql_and_hidden_files_that_airflow_reads_are_shipped(world: World) -> None:
    world.deploy()
    names = world.buckets.names()
    assert world.buckets.environment.uri("dags/sql/engines/bigquery/qualify.sql.jinja") in names
    assert world.buckets.environment.uri("plugins/.airflowignore") in names


def test_the_dags_are_told_where_the_spark_code_is(world: World) -> None:
    world.deploy()
    record = world.buckets.environment.read("dags/spark_code.json")
    assert record is not None
    assert set(json.loads(record.text).values()) <= world.buckets.names()


def test_what_left_the_repository_leaves_the_bucket_and_foreign_objects_stay(world: World) -> None:
    world.deploy()
    foreign = world.buckets.environment.uri("dags/of_another_team.py")
    world.buckets.environment.put("dags/of_another_team.py", "print()")
    (world.repository / "dags" / "rollback.py").unlink()

    assert world.deploy() == [("delete", world.buckets.environment.uri("dags/rollback.py"))]
    assert foreign in world.buckets.names()


def test_a_foreign_object_in_the_way_is_replaced_only_when_told_to(world: World) -> None:
    world.buckets.environment.put("dags/publish.py", "print('another DAG')")

    with pytest.raises(ConfigurationError, match=r"dags/publish\.py.*TAKE_OVER=1"):
        world.deploy()
    assert world.commands.run == []

    assert ("replace", world.buckets.environment.uri("dags/publish.py")) in world.deploy(take_over=True)
    assert world.deploy() == []


def test_what_somebody_edited_in_the_bucket_is_laid_again(world: World) -> None:
    world.deploy()
    world.buckets.environment.put("dags/publish.py", "print('edited in the bucket')")
    assert world.deploy() == [("replace", world.buckets.environment.uri("dags/publish.py"))]


def test_dags_come_after_everything_that_they_read(world: World) -> None:
    world.deploy()
    buckets = [command[-1] for command in world.commands.run]
    laid = [sorted(Path(path).name for path in command[4:-1]) for command in world.commands.run]
    assert buckets[0] == f"gs://{world.buckets.state.bucket}/"
    assert laid == [["spark-code"], ["dags", "plugins"], ["dags"]]


def test_a_release_that_died_is_finished_by_the_next(world: World) -> None:
    world.commands.fail_at = 2
    with pytest.raises(ConnectionError):
        world.deploy()
    world.commands.fail_at = None
    (world.repository / "sql" / "publish" / "swap_target.sql").write_text("SELECT 1\n")

    changed = world.deploy()  # the edited file was laid already, and is known as ours
    assert ("replace", world.buckets.environment.uri("dags/sql/publish/swap_target.sql")) in changed
    assert world.deploy() == []


def test_of_two_releases_at_once_the_later_is_refused(world: World) -> None:
    late = world.release()
    plan = late.plan()
    world.deploy()
    with pytest.raises(LostRace):
        late.apply(plan)


def test_spark_code_stays_for_runs_that_were_started_with_it(world: World) -> None:
    def spark_objects() -> int:
        return sum("/spark-code/" in name for name in world.buckets.names())

    def edit(text: str) -> list[tuple[str, str]]:
        job = world.repository / "spark_jobs" / "dedup_spark" / "__init__.py"
        job.write_text(f'"""{text}"""\n')
        return world.deploy()

    world.deploy()
    laid_by_one = spark_objects()
    assert not any(action == "delete" for action, _ in edit("second"))
    assert spark_objects() > laid_by_one
    of_two = spark_objects()
    assert world.deploy() == []
    assert any(action == "delete" for action, _ in edit("third"))
    assert spark_objects() == of_two


def test_a_file_of_a_kind_that_nobody_reads_is_named(world: World) -> None:
    (world.repository / "dags" / "publish.py.orig").write_text("")
    with pytest.raises(ConfigurationError, match=r"publish\.py\.orig.*delete or move it"):
        world.release()


def test_compiled_modules_are_not_shipped(world: World) -> None:
    cache = world.repository / "dags" / "__pycache__"
    cache.mkdir()
    (cache / "publish.cpython-311.pyc").write_bytes(b"")
    world.deploy()
    assert not any("__pycache__" in name for name in world.buckets.names())
