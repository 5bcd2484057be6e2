"""A dry run shows what a publish would do, and leaves no trace."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, DeliveryRefused
from testkit import operations, runs
from testkit.fake_dedup_job import parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row
from tests.contract.publish.existing_tables import with_table


def try_out(world: FeedOnStandIn, name: str, **changes: Any) -> Any:
    """Also proves that nothing was written, and that the same question has the same answer."""
    before = traces(world)
    asked = {"replay": True, "run_id": "dry", **changes}
    found = runs.dry_run_of(world, name, **asked)
    assert runs.dry_run_of(world, name, **asked) == found
    assert traces(world) == before
    return found


def traces(world: FeedOnStandIn) -> tuple[Any, ...]:
    objects = world.storage.bucket("state").list_blobs(prefix=f"{world.feed.feed}/")
    tables = [t.table_id for t in world.bigquery.list_tables("warehouse") if t.table_id.startswith(world.feed.feed)]
    return sorted((o.name, o.generation) for o in objects), tables, sum(1 for _ in world.bigquery.list_jobs())


def test_before_the_first_publish_all_is_new(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1), row(7, 2), row(7, 1, day=YESTERDAY)])
    found = try_out(world, name)
    assert (found.changes_target, "first publish" in found.effect) == (True, True)
    assert (found.landed.files, found.landed.rows, found.landed.rows_are_estimated) == (2, 3, False)
    assert found.landed.dates == (YESTERDAY, TODAY)
    assert found.loaded_bytes == found.landed.size > 0


def test_what_a_snapshot_would_bring_keep_and_delete(world: FeedOnStandIn) -> None:
    for snapshot in (5, 6):
        world.publish(world.land(snapshot, [row(snapshot, 1), row(snapshot, 1, day=YESTERDAY)]))
    name = world.land(7, [row(7, 1)])
    found = try_out(world, name)
    assert (found.changes_target, found.effect.startswith(f"rows of {name} replace older ones")) == (True, True)
    assert (found.live_generation, found.live.dates, found.live.copied_forward) == (2, 2, 1)
    assert found.seconds is not None
    folder = f"{world.feed.feed}/data/{world.state.manifest(1)['attempt']}/"
    assert found.live.folders_deleted == (folder,)
    assert 0 < found.cost.query_usd < 0.001
    text = operations.dry_run_text_of(found)
    assert "| dates kept as they are | 1 of 2 |" in text
    assert f"| included | {name} |" in text
    merge = runs.dry_run_of(world, name, replay=True, engine=Engine.MERGE)
    assert merge.cost.table_bytes_read > found.cost.table_bytes_read == 0
    assert "| loaded into staging | by the engine's statement |" in operations.dry_run_text_of(merge)


def test_the_files_of_a_new_date_are_loaded_besides_those_of_the_live_generation(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, number, day=YESTERDAY) for number in range(500)]))
    found = try_out(world, world.land(8, [row(8, 1)]))
    assert found.live.size > found.landed.size > 0
    assert found.loaded_bytes == found.live.size + found.landed.size


def test_a_replay_of_what_is_live_or_superseded_would_change_nothing(world: FeedOnStandIn) -> None:
    older, name = world.land(7, [row(7, 1)]), world.land(7, [row(7, 2)])
    world.publish(name)
    found = try_out(world, name)
    assert (found.changes_target, found.applied) == (False, (found.delivery,))
    assert (found.landed.files, found.live.copied_forward) == (0, 1)
    assert try_out(world, name, plan="window").landed.files == 1
    superseded = try_out(world, older)
    assert (superseded.changes_target, superseded.loaded_bytes, superseded.applied) == (False, 0, ())


def test_an_older_snapshot_would_only_fill_gaps_and_of_the_dates_that_are_asked_for(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 1, day=YESTERDAY)]))
    name = world.land(5, [row(5, 2), row(5, 2, day=YESTERDAY)])
    found = try_out(world, name, dates=(YESTERDAY,))
    assert "older than snapshot 7, which is live: only fills gaps" in found.effect
    assert (found.landed.files, found.landed.dates) == (1, (YESTERDAY,))
    assert found.effect.endswith("the delivery itself stays to be published")
    with pytest.raises(ConfigurationError, match="not in the delivery"):
        try_out(world, name, dates=(TODAY - timedelta(days=3),))


def test_an_excluded_or_refused_delivery_of_which_some_dates_are_replayed_keeps_its_status(
    world: FeedOnStandIn,
) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    excluded = world.land(8, [row(8, 1)])
    world.publish(excluded)
    world.roll_back(1)
    assert try_out(world, excluded, dates=(TODAY,)).effect.endswith("the delivery itself stays excluded")
    world.dedup.refused_ids = {9}
    refused = world.land(9, [row(9, 1)])
    with pytest.raises(DeliveryRefused):
        world.publish(refused)
    assert world.state.deliveries("refused") == [refused]
    assert try_out(world, refused, dates=(TODAY,)).effect.endswith("the delivery itself stays refused")


def test_what_would_be_refused_and_a_run_at_work_are_reported(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    name = world.land(8, [row(8, 1)])
    world.resolve(name, run_id="at-work")
    world.running.add("at-work")
    world.overwrite(8, f"date={TODAY}/part-0.parquet", b"other")
    found = try_out(world, name)
    assert "was replaced" in found.landed.problems[0]
    text = operations.dry_run_text_of(found)
    for part in ("**Would be refused**: object", "At work now: run [at-work] of [feed_publish]", "rows unknown"):
        assert part in text


def test_a_file_that_is_no_parquet_would_be_refused(world: FeedOnStandIn) -> None:
    name = world.land_files(7, {f"date={TODAY}/part-0.parquet": b"date,product_id\n"})
    assert "part-0.parquet] cannot be read as Parquet: " in try_out(world, name).landed.problems[0]


def test_another_clustering_stops_a_dry_run_as_it_stops_a_publish(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    name = world.land(8, [row(8, 1)])
    world.feed = with_table(world.feed, cluster_by=("store_id",))
    with pytest.raises(CheckFailed, match="layout"):
        runs.dry_run_of(world, name)


def test_hidden_files_outside_date_folders_are_not_counted(world: FeedOnStandIn) -> None:
    landing = world.feed.landing.model_copy(update={"date_folders": False})
    world.feed = world.feed.model_copy(update={"landing": landing})
    hidden = {name: b"half-written" for name in ("_temporary/part-1.parquet", ".part-2.parquet")}
    name = world.land_files(7, {"part-0.parquet": parquet_bytes([row(7, 1)]), **hidden})
    found = try_out(world, name)
    assert (found.landed.files, found.landed.rows, found.landed.problems) == (1, 1, ())
