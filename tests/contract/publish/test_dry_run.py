"""A dry run shows what a publish would do, and leaves no trace."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from testkit import deliveries
from testkit.fake_dedup_job import parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row


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
    return sorted((o.name, o.generation) for o in objects), tables, sum(1 for _ in world.bigquery.list_jobs())


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
