"""A dry run shows what a publish would do and leaves no trace; a preview refuses what a later step would refuse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import (
    BootstrapRefused,
    CheckFailed,
    ConfigurationError,
    ContractViolation,
    DedupCloneError,
)
from testkit import deliveries, runs
from testkit.dedup_job import parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row
from tests.contract.publish.existing_tables import column, land_declared, maintain, with_columns, with_table


def try_out(world: FeedOnStandIn, name: str, **changes: Any) -> str:
    """Also proves that nothing was written, and that the same question has the same answer."""
    before = traces(world)
    asked = {"replay": True, "run_id": "dry", **changes}
    text = deliveries.dry_run_of(world, name, **asked)
    assert deliveries.dry_run_of(world, name, **asked) == text
    assert traces(world) == before
    return text


def traces(world: FeedOnStandIn) -> tuple[Any, ...]:
    objects = world.storage.bucket("state").list_blobs(prefix=f"{world.feed.feed}/")
    tables = [t.table_id for t in world.bigquery.list_tables("warehouse") if t.table_id.startswith(world.feed.feed)]
    return sorted((o.name, o.generation) for o in objects), tables, len(world.jobs())


def cells(text: str) -> dict[str, str]:
    """The rows of the table: what -> value."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {line[0]: line[1] for line in lines}


def test_before_the_first_publish_all_is_new(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1), row(7, 2), row(7, 1, day=YESTERDAY)])
    text = try_out(world, name)
    assert "Target would change: the first publish, all rows are new" in text
    read = cells(text)["delivered"]
    assert read.startswith("2 files, ")
    assert read.endswith(f" bytes, 3 rows; dates {YESTERDAY}..{TODAY}")


def test_what_a_snapshot_would_bring_and_keep(world: FeedOnStandIn) -> None:
    for snapshot in (5, 6):
        world.publish(world.land(snapshot, [row(snapshot, 1), row(snapshot, 1, day=YESTERDAY)]))
    name = world.land(7, [row(7, 1)])
    text = try_out(world, name)
    assert f"Target would change: rows of {name} replace older ones" in text
    found = cells(text)
    assert (found["live generation"], found["included"], found["superseded"]) == ("2", name, "none")
    assert (found["engine, plan"], found["dates that are not delivered"]) == ("spark, auto", "1 of 2")
    merge = cells(deliveries.dry_run_of(world, name, replay=True, engine=Engine.MERGE))
    assert merge["engine, plan"] == "merge"


def test_a_replay_of_what_is_live_or_superseded_would_change_nothing(world: FeedOnStandIn) -> None:
    older, name = world.land(7, [row(7, 1)]), world.land(7, [row(7, 2)])
    world.publish(name)
    text = try_out(world, name)
    assert "Target would not change: the live generation has all of it" in text
    assert cells(text)["dates that are not delivered"] == "0 of 1"
    superseded = try_out(world, older)
    assert "Target would not change: nothing would be published" in superseded
    assert cells(superseded) == {}


def test_an_older_snapshot_would_only_fill_gaps_and_of_the_dates_that_are_asked_for(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 1, day=YESTERDAY)]))
    name = world.land(5, [row(5, 2), row(5, 2, day=YESTERDAY)])
    text = try_out(world, name, dates=(YESTERDAY,))
    assert "older than snapshot 7, which is live: only fills gaps" in text
    assert cells(text)["delivered"].endswith(f"1 rows; dates {YESTERDAY}")
    assert "on the requested dates; the delivery itself stays what it is" in text
    with pytest.raises(ConfigurationError, match="not in the delivery"):
        try_out(world, name, dates=(TODAY - timedelta(days=3),))


def test_what_would_be_refused_and_a_run_at_work_are_reported(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    name = world.land(8, [row(8, 1)])
    world.resolve(name, run_id="at-work")
    world.running.add("at-work")
    world.overwrite(8, f"date={TODAY}/part-0.parquet", b"other")
    text = try_out(world, name)
    for part in ("**Would be refused**: object", "was replaced", "At work now: run [at-work] of [feed_publish]"):
        assert part in text
    assert "rows unknown" in cells(text)["delivered"]


def test_hidden_files_outside_date_folders_are_not_counted(world: FeedOnStandIn) -> None:
    landing = world.feed.landing.model_copy(update={"date_folders": False})
    world.feed = world.feed.model_copy(update={"landing": landing})
    hidden = {name: b"half-written" for name in ("_temporary/part-1.parquet", ".part-2.parquet")}
    name = world.land_files(7, {"part-0.parquet": parquet_bytes([row(7, 1)]), **hidden})
    text = try_out(world, name)
    read = cells(text)["delivered"]
    assert read.startswith("1 files, ")
    assert read.endswith(" 1 rows; dates unknown until they are read")
    assert "Would be refused" not in text


Step = Callable[[FeedOnStandIn], object]
FLOATS = r"\[price, size\.height\]"
KEYS = "product_id\n1\n"


def publish_with_floats(world: FeedOnStandIn) -> None:
    size = column("size", "STRUCT", fields=(column("height", "FLOAT64"),))
    world.feed = with_columns(world.feed, price=column("price", "FLOAT64"), size=size)
    world.publish(land_declared(world, 7, [row(7, 1) | {"price": 0.1, "size": {"height": 0.2}}]))


def publish(world: FeedOnStandIn) -> None:
    for snapshot_id in (7, 8):
        world.publish(world.land(snapshot_id, [row(snapshot_id, 1), row(snapshot_id, 2)]))


def without_files(world: FeedOnStandIn) -> None:
    """An engine in SQL writes no files; a lifecycle rule may delete those of Spark."""
    world.state.lose("data/")


def change_target(world: FeedOnStandIn) -> None:
    world.bigquery.query_and_wait(f"DELETE FROM warehouse.{world.feed.target} WHERE product_id = 1")


def cluster_otherwise(world: FeedOnStandIn) -> None:
    world.feed = with_table(world.feed, cluster_by=("store_id",))


def expire_target(world: FeedOnStandIn) -> None:
    table = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    table.expires = world.now().replace(year=world.now().year + 1)
    world.bigquery.update_table(table, ["expires"])


def copy_table_with_floats(world: FeedOnStandIn) -> None:
    publish_with_floats(world)
    source, world.feed = world.feed.target, world.feed.model_copy(update={"feed": f"{world.feed.feed}_again"})
    world.bigquery.query_and_wait(
        f"CREATE TABLE warehouse.{world.feed.target} CLONE warehouse.{source} OPTIONS (labels = [])"
    )


def make_staging(world: FeedOnStandIn) -> None:
    world.bigquery.query_and_wait(
        f"CREATE TABLE warehouse.{world.feed.staging} PARTITION BY date CLUSTER BY store_id "
        f"AS SELECT * FROM warehouse.{world.feed.target} WHERE FALSE"
    )


def shown_publish(world: FeedOnStandIn) -> None:
    deliveries.dry_run_of(world, world.land(9, [row(9, 1)]))


def resolved_publish(world: FeedOnStandIn) -> None:
    world.resolve(world.land(9, [row(9, 1)]))


def shown_erasure(world: FeedOnStandIn) -> None:
    runs.erasure(world, KEYS).step("preview")


def shown_rebuild(world: FeedOnStandIn) -> None:
    cluster_otherwise(world)
    runs.rebuild(world).step("preview")


def shown_bootstrap(world: FeedOnStandIn) -> None:
    runs.bootstrap(world).step("preview")


CASES: dict[str, tuple[tuple[Step, ...], Step, type[DedupCloneError], str]] = {
    "publish, float": ((publish_with_floats, without_files), shown_publish, ContractViolation, FLOATS),
    "publish, float, no lease": ((publish_with_floats, without_files), resolved_publish, ContractViolation, FLOATS),
    "publish, rows": ((publish, without_files, change_target), shown_publish, ContractViolation, "1 rows, expected 2"),
    "publish, layout": ((publish, cluster_otherwise), shown_publish, CheckFailed, "layout"),
    "erasure, float": ((publish_with_floats, without_files), shown_erasure, ContractViolation, FLOATS),
    "rebuild, float": ((publish_with_floats,), shown_rebuild, ConfigurationError, r"\[price\] .*\[size\.height\]"),
    "rebuild, rows": ((publish, change_target), shown_rebuild, ConfigurationError, "1 rows, expected 2"),
    "bootstrap, float": ((copy_table_with_floats,), shown_bootstrap, BootstrapRefused, FLOATS),
    "bootstrap, staging": ((maintain, make_staging), shown_bootstrap, BootstrapRefused, "clustered by store_id"),
    "rollback, expiration": ((publish, expire_target), lambda world: world.preview(1), CheckFailed, "table_expiration"),
}


@pytest.mark.parametrize(("prepare", "show", "error", "words"), CASES.values(), ids=CASES.keys())
def test_what_a_later_step_refuses_is_refused_by_the_preview(
    world: FeedOnStandIn, prepare: tuple[Step, ...], show: Step, error: type[DedupCloneError], words: str
) -> None:
    for step in prepare:
        step(world)
    before = world.state.current
    with pytest.raises(error, match=words):
        show(world)
    assert world.state.current == before


@pytest.mark.parametrize("prepare", [(publish_with_floats,), (publish, without_files)], ids=["files", "no float"])
def test_rows_that_can_be_read_are_not_refused(world: FeedOnStandIn, prepare: tuple[Step, ...]) -> None:
    for step in prepare:
        step(world)
    generation = world.state.generation
    run = runs.erasure(world, KEYS).until("resolve")
    assert run.plan.parent == generation
