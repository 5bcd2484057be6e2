"""The feed's own SQL checks run over what the swap would clone, before readers see it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dedup_clone.checks.check_result import CheckResult, Level
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError
from dedup_clone.orchestration.publish.publish_form import publish_params
from dedup_clone.publish.discard import discard
from dedup_clone.publish.records.attempt_records import read_check_results
from dedup_clone.publish.sql_checks import dry_run_sql_checks, run_sql_checks
from dedup_clone.settings.check_settings import SqlCheck
from dedup_clone.settings.feed import Feed
from dedup_clone.settings.table_settings import ColumnSettings
from dedup_clone.warehouse.jobs import Jobs
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row

POSITIVE = "SELECT product_id, attr_value FROM {{ staging }} AS s WHERE s.attr_value < 0 ORDER BY product_id"


def with_query(feed: Feed, folder: Path, query: str, **settings: Any) -> Feed:
    """The feed with one SQL check named `positive_values`."""
    checks = feed.checks.model_copy(update={"sql": (SqlCheck(name="positive_values", **settings),)})
    changed = feed.model_copy(update={"checks": checks})
    (folder / feed.feed).mkdir()
    (folder / feed.feed / "positive_values.sql").write_text(query)
    changed.read_queries(folder)
    return changed


def loaded(world: FeedOnStandIn, *values: int, **changes: Any) -> Any:
    """A publish of one row for each value, up to its checks."""
    name = world.land(7, [row(7, product, value) for product, value in enumerate(values)])
    spec = world.resolve(name, **changes)
    world.dedup.run(spec.request_uri)
    world.load(spec)
    return spec


def result(world: FeedOnStandIn, spec: Any) -> CheckResult:
    items = read_check_results(world.services, spec.attempt, "before").items
    return next(item for item in items if item.check == "sql_positive_values")


def test_rows_that_a_query_returns_stop_the_publish_and_are_named(world: FeedOnStandIn, tmp_path: Path) -> None:
    world.feed = with_query(world.feed, tmp_path, POSITIVE)
    spec = loaded(world, 5, -3, -4)
    with pytest.raises(CheckFailed, match="sql_positive_values"):
        world.check(spec)
    assert world.services.warehouse.table(world.feed.target) is None
    found = result(world, spec)
    assert found.found == "2 rows"
    assert found.examples == ("(product_id 1, attr_value -3)", "(product_id 2, attr_value -4)")


def test_a_query_without_rows_passes_and_its_bytes_are_part_of_the_cost(world: FeedOnStandIn, tmp_path: Path) -> None:
    world.feed = with_query(world.feed, tmp_path, POSITIVE)
    spec = loaded(world, 5, 3)
    swap = world.check(spec)
    assert result(world, spec).level is Level.PASS
    metadata_only = world.services.warehouse.observe(world.services.names, world.feed.staging).bytes_billed
    assert swap.bytes_billed > metadata_only


def test_as_many_rows_as_allowed_pass(world: FeedOnStandIn, tmp_path: Path) -> None:
    world.feed = with_query(world.feed, tmp_path, POSITIVE, max_rows=1)
    world.check(loaded(world, 5, -3))


AVERAGE = "SELECT AVG(s.attr_value) AS average FROM {{ staging }} AS s"


@pytest.mark.parametrize(
    ("query", "bounds", "found", "expects"),
    [
        (AVERAGE, {"min": 4, "max": 4}, "4.0", None),
        (AVERAGE, {"min": 4.5}, "4.0", "at least 4.5"),
        (AVERAGE, {"min": 1, "max": 3.5}, "4.0", "at least 1 and at most 3.5"),
        (f"{AVERAGE} WHERE s.attr_value < 0", {"max": 1_000_000}, "NULL", "at most 1000000"),
        ("SELECT NUMERIC '0.3' AS n FROM {{ staging }} LIMIT 1", {"max": 0.25}, "0.3", "at most 0.25"),
        (
            "SELECT s.attr_value, 'x' FROM {{ staging }} AS s",
            {"max": 9},
            "2 rows, the first of types int, str",
            "one row",
        ),
        (f"{AVERAGE} HAVING FALSE", {"max": 9}, "0 rows", "one row with one number"),
    ],
)
def test_the_number_that_a_query_returns_must_lie_in_its_range(
    world: FeedOnStandIn, tmp_path: Path, query: str, bounds: dict[str, float], found: str, expects: str | None
) -> None:
    world.feed = with_query(world.feed, tmp_path, query, **bounds)
    spec = loaded(world, 3, 5)
    if expects:
        with pytest.raises(CheckFailed, match=rf"sql_positive_values.*expected \[{expects}"):
            world.check(spec)
    else:
        world.check(spec)
    assert result(world, spec).found == found


@pytest.mark.parametrize(
    ("bounds", "problem"),
    [({"min": 2, "max": 1}, "accepts no number"), ({"min": 1, "max_rows": 0}, "keep one")],
)
def test_bounds_that_contradict_each_other_are_refused(bounds: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        SqlCheck.model_validate({"name": "positive_values", **bounds})


@pytest.mark.exhaustive
def test_a_person_may_accept_the_failure_with_a_reason(world: FeedOnStandIn, tmp_path: Path) -> None:
    world.feed = with_query(world.feed, tmp_path, POSITIVE)
    changes = {"accepted_checks": ("sql_positive_values",), "reason": "refunds are negative"}
    spec = loaded(world, -3, **changes)
    world.swap(spec, world.check(spec))
    world.commit(spec)
    assert world.rows() == expected(row(7, 0, -3))


def test_a_query_sees_staging_as_of_the_moment_that_is_cloned(world: FeedOnStandIn, tmp_path: Path) -> None:
    world.feed = with_query(world.feed, tmp_path, POSITIVE)
    loaded(world, 5)
    moment = world.services.warehouse.observe(world.services.names, world.feed.staging).observed_at
    world.bigquery.query_and_wait(f"UPDATE warehouse.{world.feed.staging} SET attr_value = -1 WHERE TRUE")
    assert [r.level for r in run_sql_checks(world.services, moment)[0]] == [Level.PASS]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT no_such_column FROM {{ staging }}", "no_such_column"),
        pytest.param("DELETE FROM t WHERE TRUE", r"the query fails", marks=pytest.mark.exhaustive),
        pytest.param("SELECT * FORM {{ staging }}", "Syntax error", marks=pytest.mark.exhaustive),
    ],
)
def test_a_query_that_cannot_run_fails_the_check_and_names_its_file(
    world: FeedOnStandIn, tmp_path: Path, query: str, found: str
) -> None:
    world.feed = with_query(world.feed, tmp_path, query)
    spec = loaded(world, 5)
    with pytest.raises(CheckFailed, match=found):
        world.check(spec)
    assert f"dags/feeds/{world.feed.feed}/positive_values.sql" in result(world, spec).next_step


NO_COLUMN = "SELECT no_such_column FROM {{ staging }}"


@pytest.mark.parametrize(
    ("query", "settings", "found"),
    [(NO_COLUMN, {}, "no_such_column"), (POSITIVE, {"max_bytes_billed": 1}, "max_bytes_billed")],
    ids=["invalid", "too large"],
)
def test_a_query_that_cannot_run_stops_the_next_publish_before_its_dedup(
    world: FeedOnStandIn, tmp_path: Path, query: str, settings: dict[str, int], found: str
) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.feed = with_query(world.feed, tmp_path, query)
    if settings:
        check = SqlCheck.model_construct(name="positive_values", max_rows=0, **settings)
        checks = world.feed.checks.model_copy(update={"sql": (check,)})
        world.feed = world.feed.model_copy(update={"checks": checks})
    name = world.land(8, [row(8, 1)])
    with pytest.raises(CheckFailed, match=found):
        world.resolve(name)
    assert world.services.current.read().intent is None
    assert world.resolve(name, replay=True, accepted_checks=("sql_positive_values",), reason="known")


def test_a_query_may_name_a_column_that_the_publish_adds(world: FeedOnStandIn, tmp_path: Path) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    columns = (*world.feed.table.columns, ColumnSettings(name="colour", type="STRING", since=9))
    table = world.feed.table.model_copy(update={"columns": columns})
    world.feed = with_query(
        world.feed.model_copy(update={"table": table}), tmp_path, "SELECT colour FROM {{ staging }} WHERE colour = ''"
    )
    assert dry_run_sql_checks(world.services) == []
    spec = world.resolve(world.land(8, [row(8, 1)]))
    world.deduplicate(spec)
    world.load(spec)
    world.check(spec)
    assert [item.level for item in dry_run_sql_checks(world.services)] == [Level.PASS]


def test_a_query_that_would_cost_too_much_is_not_run(
    world: FeedOnStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry_run = Jobs.dry_run_select_bytes

    def dry_run_without_limit(jobs: Jobs, configuration: Mapping[str, Any]) -> int:
        assert "maximumBytesBilled" not in configuration["query"]
        return dry_run(jobs, configuration)

    monkeypatch.setattr(Jobs, "dry_run_select_bytes", dry_run_without_limit)
    check = SqlCheck.model_construct(name="positive_values", max_rows=0, max_bytes_billed=1)
    world.feed = with_query(world.feed, tmp_path, POSITIVE)
    checks = world.feed.checks.model_copy(update={"sql": (check,)})
    world.feed = world.feed.model_copy(update={"checks": checks})
    spec = loaded(world, 5)
    with pytest.raises(CheckFailed, match="max_bytes_billed"):
        world.check(spec)


def test_another_name_than_staging_is_an_error_that_says_so(world: FeedOnStandIn, tmp_path: Path) -> None:
    world.feed = with_query(world.feed, tmp_path, "SELECT * FROM {{ target }}")
    spec = loaded(world, 5)
    with pytest.raises(ConfigurationError, match=r"\{\{ staging \}\} only"):
        world.check(spec)


@pytest.mark.exhaustive
def test_a_rollback_runs_no_query(world: FeedOnStandIn, tmp_path: Path) -> None:
    first = world.publish(world.land(7, [row(7, 1, -5)]))
    world.publish(world.land(8, [row(8, 1, 5)]))
    world.feed = with_query(world.feed, tmp_path, POSITIVE)
    world.roll_back(first.generation)
    assert world.rows() == expected(row(7, 1, -5))


def test_a_feed_whose_query_has_no_file_is_refused(world: FeedOnStandIn, tmp_path: Path) -> None:
    checks = world.feed.checks.model_copy(update={"sql": (SqlCheck(name="absent"),)})
    with pytest.raises(ConfigurationError, match=r"absent\.sql\]: add it"):
        world.feed.model_copy(update={"checks": checks}).read_queries(tmp_path)


def unique_across_dates(feed: Feed, **changes: Any) -> Feed:
    checks = feed.checks.model_copy(update={"unique_across_dates": ("product_id", "store_id")})
    return feed.model_copy(update={"checks": checks, **changes})


@pytest.mark.parametrize("engine", [Engine.SPARK, Engine.BIGQUERY, Engine.MERGE])
def test_an_id_whose_date_changed_stops_the_publish_and_is_named(world: FeedOnStandIn, engine: Engine) -> None:
    world.publish(world.land(7, [row(7, 1, day=YESTERDAY), row(7, 2)]), engine=engine)
    world.feed = unique_across_dates(world.feed)
    name = world.land(8, [row(8, 1), row(8, 2)])
    spec = world.resolve(name, engine=engine)
    world.deduplicate(spec)
    world.load(spec)
    with pytest.raises(CheckFailed, match="sql_unique_across_dates"):
        world.check(spec)
    items = read_check_results(world.services, spec.attempt, "before").items
    found = next(item for item in items if item.check == "sql_unique_across_dates")
    assert (found.found, found.expected) == ("1 rows", "at most 0 rows")
    assert found.examples == (
        f"(product_id 1, store_id 2072, found_rows 2, first_date {YESTERDAY}, last_date {TODAY})",
    )
    assert world.rows() == expected(row(7, 1, day=YESTERDAY), row(7, 2))

    discard(world.services, world.services.current.require_intent(spec.attempt))
    accepted = {"accepted_checks": ("sql_unique_across_dates",), "reason": "the order was moved", "engine": engine}
    world.publish(name, replay=True, **accepted)
    assert world.rows() == expected(row(7, 1, day=YESTERDAY), row(8, 1), row(8, 2))


def test_ids_of_one_date_pass_and_the_form_offers_to_accept_the_check(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1, day=YESTERDAY), row(7, 2)]))
    world.feed = unique_across_dates(world.feed)
    world.publish(world.land(8, [row(8, 1, day=YESTERDAY), row(8, 2)]))
    assert "sql_unique_across_dates" in publish_params(world.feed)["accepted_checks"].schema["items"]["enum"]


def test_a_table_too_large_for_the_check_is_refused_before_the_dedup(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.feed = unique_across_dates(world.feed, max_bytes_billed=64 << 30)
    monkeypatch.setattr(Jobs, "dry_run_select_bytes", lambda jobs, configuration: (64 << 30) + 1)
    with pytest.raises(CheckFailed, match=r"let \[checks.unique_across_dates\] read fewer.*raise max_bytes_billed"):
        world.resolve(world.land(8, [row(8, 1)]))
    assert world.services.current.read().intent is None
