"""The feed's own SQL checks run over what the swap would clone, before readers see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dedup_clone.contract.errors import CheckFailed, ConfigurationError
from dedup_clone.settings.check_settings import SqlCheck
from testkit import operations, runs, step_faults
from testkit.airflow import TaskApi
from testkit.dag_tasks import DagTasks
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row

POSITIVE = "SELECT product_id, attr_value FROM {{ staging }} AS s WHERE s.attr_value < 0 ORDER BY product_id"
AVERAGE = "SELECT AVG(s.attr_value) AS average FROM {{ staging }} AS s"
NAME = "sql_positive_values"
ACCEPTS: dict[str, Any] = {"replay": True, "accepted_checks": (NAME,), "reason": "refunds are negative"}
Declare = Callable[..., None]


@pytest.fixture
def declare(world: FeedOnStandIn, tmp_path: Path) -> Declare:
    """`declare(query, **settings)`: gives the feed one SQL check named `positive_values`."""

    def one(query: str, **settings: Any) -> None:
        folder = tmp_path / world.feed.feed
        folder.mkdir(exist_ok=True)
        (folder / "positive_values.sql").write_text(query)
        check = SqlCheck.model_construct(**{"name": "positive_values", "max_rows": 0, **settings})
        checks = world.feed.checks.model_copy(update={"sql": (check,)})
        world.feed = world.feed.model_copy(update={"checks": checks})
        world.feed.read_queries(tmp_path)

    return one


def loaded(world: FeedOnStandIn, *values: int, **changes: Any) -> runs.Run:
    """A publish of one row for each value, up to its checks."""
    name = world.land(7, [row(7, product, value) for product, value in enumerate(values)])
    return runs.publish(world, name, **changes).until("load")


def result(run: runs.Run, check: str = NAME) -> dict[str, Any]:
    return run.world.state.checks(run.attempt)[check]


def test_rows_that_a_query_returns_stop_the_publish_and_are_named_unless_allowed_or_accepted(
    world: FeedOnStandIn, declare: Declare
) -> None:
    declare(POSITIVE)
    run = loaded(world, 5, -3, -4)
    with pytest.raises(CheckFailed, match=NAME):
        run.step("check")
    assert world.live() is None
    assert result(run)["found"] == "2 rows"
    assert result(run)["examples"] == ["(product_id 1, attr_value -3)", "(product_id 2, attr_value -4)"]
    run.end()
    stopped = run.plan.deliveries[0].name
    declare(POSITIVE, max_rows=2)
    runs.publish(world, stopped, replay=True, reason="once more").until("check").end()
    declare(POSITIVE)
    accepted = runs.publish(world, stopped, **ACCEPTS).finish()
    assert world.rows() == expected(row(7, 0, 5), row(7, 1, -3), row(7, 2, -4))
    world.publish(world.land(8, [row(8, 1, 3), row(8, 2, 3)]))
    world.roll_back(accepted.generation)  # runs no query
    assert world.rows()[1][2] == -3


def test_a_query_without_rows_passes_and_its_bytes_are_part_of_the_cost(world: FeedOnStandIn, declare: Declare) -> None:
    without = loaded(world, 5, 3).until("check")
    without.end()
    declare(POSITIVE)
    run = loaded(world, 5, 3).until("check")
    assert result(run)["level"] == "pass"
    assert run.checked.bytes_billed > without.checked.bytes_billed == 0


RETURNED: list[tuple[str, dict[str, float], str, str | None]] = [
    (AVERAGE, {"min": 4, "max": 4}, "4.0", None),
    (AVERAGE, {"min": 4.5}, "4.0", "at least 4.5"),
    (AVERAGE, {"min": 1, "max": 3.5}, "4.0", "at least 1 and at most 3.5"),
    (f"{AVERAGE} WHERE s.attr_value < 0", {"max": 1_000_000}, "NULL", "at most 1000000"),
    ("SELECT NUMERIC '0.3' AS n FROM {{ staging }} LIMIT 1", {"max": 0.25}, "0.3", "at most 0.25"),
    ("SELECT s.attr_value, 'x' FROM {{ staging }} AS s", {"max": 9}, "2 rows, the first of types int", "one row"),
    (f"{AVERAGE} HAVING FALSE", {"max": 9}, "0 rows", "one row with one number"),
    # A query that cannot run fails the check.
    ("SELECT no_such_column FROM {{ staging }}", {}, "", ""),
    ("DELETE FROM t WHERE TRUE", {}, "", ""),
    ("SELECT * FORM {{ staging }}", {}, "", ""),
]


def test_what_a_query_returns_must_be_a_number_in_its_range(world: FeedOnStandIn, declare: Declare) -> None:
    run = loaded(world, 3, 5)
    for query, bounds, found, expects in RETURNED:
        declare(query, **bounds)
        if expects is None:
            run.step("check")
        else:
            with pytest.raises(CheckFailed, match=rf"{NAME}.*expected \[{expects}"):
                run.step("check")
        assert result(run)["found"].startswith(found), query
        if not bounds:
            assert f"dags/feeds/{world.feed.feed}/positive_values.sql" in result(run)["next_step"]


def test_settings_and_files_of_queries_are_checked(world: FeedOnStandIn, declare: Declare, tmp_path: Path) -> None:
    for bounds, problem in (({"min": 2, "max": 1}, "accepts no number"), ({"min": 1, "max_rows": 0}, "keep one")):
        with pytest.raises(ValueError, match=problem):
            SqlCheck.model_validate({"name": "positive_values", **bounds})
    declare("SELECT * FROM {{ target }}")
    with pytest.raises(ConfigurationError, match=r"\{\{ staging \}\} only"):
        loaded(world, 5).step("check")
    (tmp_path / world.feed.feed / "positive_values.sql").unlink()
    with pytest.raises(ConfigurationError, match=r"positive_values\.sql\]: add it"):
        world.feed.read_queries(tmp_path)


def test_a_query_sees_staging_as_of_the_moment_that_is_cloned(world: FeedOnStandIn, declare: Declare) -> None:
    declare(POSITIVE)
    run = loaded(world, 5)
    update = f"UPDATE .{world.feed.staging} SET attr_value = -1 WHERE TRUE"
    assert operations.sql_check_levels(run, change_meanwhile=lambda: world.query(update)) == ["pass"]


@pytest.mark.parametrize(
    ("query", "settings", "found", "advice"),
    [
        ("SELECT no_such_column FROM {{ staging }}", {}, "no_such_column", "correct [dags/feeds/"),
        (POSITIVE, {"max_bytes_billed": 1}, "max_bytes_billed", "let [dags/feeds/"),
    ],
    ids=["invalid", "too large"],
)
def test_a_query_that_cannot_run_stops_the_next_publish_before_its_dedup(
    world: FeedOnStandIn, declare: Declare, query: str, settings: dict[str, int], found: str, advice: str
) -> None:
    """The advice concerns the query: what the delivery holds is not at fault, and it is not held."""
    first = loaded(world, 5)
    declare(query, **settings)
    with pytest.raises(CheckFailed, match=found):  # a query that would cost too much is not run
        first.step("check")
    assert result(first)["is_misconfigured"]
    first.world.feed = world.feed.model_copy(update={"checks": world.feed.checks.model_copy(update={"sql": ()})})
    first.until("commit")
    declare(query, **settings)
    name = world.land(8, [row(8, 1)])
    with pytest.raises(CheckFailed, match=found):
        world.resolve(name)
    assert world.state.lease is None
    (late,) = [incident for incident in operations.incidents(world) if incident.name == "late"]
    assert late.next_step.startswith(f"[{NAME}]: {advice}")
    assert world.resolve(name, **ACCEPTS)


def test_a_query_may_name_a_column_that_the_publish_adds(world: FeedOnStandIn, declare: Declare) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    columns = [column.model_dump() for column in world.feed.table.columns]
    world.configure(table={"columns": [*columns, {"name": "colour", "type": "STRING", "since": 9}]})
    declare("SELECT colour FROM {{ staging }} WHERE colour = ''")
    run = runs.publish(world, world.land(8, [row(8, 1)])).until("check")
    assert result(run)["level"] == "pass"


# -- The check `unique_across_dates` --


@pytest.mark.parametrize("engine", ["spark", "bigquery", "merge"])
def test_an_id_whose_date_changed_stops_the_publish_and_is_named(world: FeedOnStandIn, engine: str) -> None:
    check = "sql_unique_across_dates"
    world.publish(world.land(7, [row(7, 1, day=YESTERDAY), row(7, 2)]), engine=engine)
    world.configure(checks={"unique_across_dates": ("product_id", "store_id")})
    name = world.land(8, [row(8, 1), row(8, 2)])
    run = runs.publish(world, name, engine=engine).until("load")
    with pytest.raises(CheckFailed, match=check):
        run.step("check")
    found = result(run, check)
    assert (found["found"], found["expected"]) == ("1 rows", "at most 0 rows")
    assert found["examples"] == [
        f"(product_id 1, store_id 2072, found_rows 2, first_date {YESTERDAY}, last_date {TODAY})"
    ]
    assert world.rows() == expected(row(7, 1, day=YESTERDAY), row(7, 2))
    run.end()
    world.publish(name, **{**ACCEPTS, "accepted_checks": (check,), "engine": engine})
    assert world.rows() == expected(row(7, 1, day=YESTERDAY), row(8, 1), row(8, 2))
    world.configure(checks={"unique_across_dates": ()})
    world.publish(world.land(9, [row(9, 1, day=YESTERDAY), row(9, 2)]), engine=engine)


@pytest.mark.timeout(100)  # the client alone would ask for a refused query's result for ten minutes
def test_a_query_that_is_refused_for_its_rate_runs_again_after_seconds(world: FeedOnStandIn, declare: Declare) -> None:
    declare(POSITIVE)
    run = loaded(world, 5, 3)
    match = {"job_type": "query"}
    world.add_fault({"match": match, "effect": "error", "reason": "rateLimitExceeded", "nth": 2, "times": 1})
    run.step("check")
    world.clear_faults()
    assert result(run)["found"] == "0 rows"


def test_a_table_too_large_for_the_check_is_refused_before_the_dedup(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.configure(checks={"unique_across_dates": ("product_id", "store_id")})
    world.publish(world.land(8, [row(8, 1)]))  # ids of one date pass
    world.configure(max_bytes_billed=64 << 30)
    name = world.land(9, [row(9, 1)])
    with step_faults.queries_that_read((64 << 30) + 1), pytest.raises(CheckFailed, match="raise max_bytes_billed"):
        world.resolve(name)
    assert world.state.lease is None
    form = DagTasks(world, TaskApi(monkeypatch), monkeypatch, "publish").dag.params
    assert "sql_unique_across_dates" in form.get_param("accepted_checks").schema["items"]["enum"]
