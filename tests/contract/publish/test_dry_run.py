"""A dry run shows what a publish would do, and leaves no trace."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.publish.previews.dry_run import DryRun, dry_run
from dedup_clone.publish.previews.dry_run_text import dry_run_text
from dedup_clone.state.arrivals import Refusal
from testkit.fake_dedup_job import parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row


def try_out(world: FeedOnStandIn, name: str, **changes: Any) -> DryRun:
    """Also proves that nothing was written, and that the same question has the same answer."""
    before = traces(world)
    asked = {"replay": True, "run_id": "dry", **changes}
    found = dry_run(world.services, world.publish_request(name, **asked))
    assert dry_run(world.services, world.publish_request(name, **asked)) == found
    assert traces(world) == before
    return found


def traces(world: FeedOnStandIn) -> tuple[Any, ...]:
    objects = world.storage.bucket("state").list_blobs(prefix=f"{world.feed.feed}/")
    tables = [world.services.warehouse.table(name) for name in (world.feed.staging, world.feed.target)]
    jobs = sum(1 for _ in world.bigquery.list_jobs())
    return sorted((o.name, o.generation) for o in objects), tables, jobs


def test_before_the_first_publish_all_is_new(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1), row(7, 2), row(7, 1, day=YESTERDAY)])
    found = try_out(world, name)
    assert found.changes_target
    assert "first publish" in found.effect
    assert (found.landed.files, found.landed.rows, found.landed.rows_are_estimated) == (2, 3, False)
    assert found.landed.dates == (YESTERDAY, TODAY)
    assert found.loaded_bytes == found.landed.size > 0
    assert world.services.warehouse.table(world.feed.staging) is None


def test_what_a_snapshot_would_bring_keep_and_delete(world: FeedOnStandIn) -> None:
    for snapshot in (5, 6):
        world.publish(world.land(snapshot, [row(snapshot, 1), row(snapshot, 1, day=YESTERDAY)]))
    name = world.land(7, [row(7, 1)])
    found = try_out(world, name)
    assert found.changes_target
    assert found.effect == f"rows of {name} replace older ones; rows that they lack stay"
    assert (found.live_generation, found.live.dates, found.live.copied_forward) == (2, 2, 1)
    assert found.seconds is not None
    parent = world.services.manifests.read(1)
    layout = world.services.layout
    assert found.live.folders_deleted == (layout.data_folder(parent.attempt),)
    assert 0 < found.cost.query_usd < 0.001
    text = dry_run_text(found)
    assert "Target would change: rows of" in text
    assert "| dates kept as they are | 1 of 2 |" in text
    assert f"| included | {name} |" in text


def test_the_files_of_a_new_date_are_loaded_besides_those_of_the_live_generation(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, number, day=YESTERDAY) for number in range(500)]))
    found = try_out(world, world.land(8, [row(8, 1)]))
    assert found.live.size > found.landed.size > 0
    assert found.loaded_bytes == found.live.size + found.landed.size


def test_a_replay_of_what_is_live_would_change_nothing(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1)])
    world.publish(name)
    found = try_out(world, name)
    assert not found.changes_target
    assert found.effect.endswith("so the new generation would have the same rows")
    assert found.applied == (found.delivery,)
    assert (found.landed.files, found.live.copied_forward) == (0, 1)
    assert "| read of landing | nothing |" in dry_run_text(found)
    assert try_out(world, name, plan="window").landed.files == 1


def test_an_older_snapshot_would_only_fill_gaps_and_of_the_dates_that_are_asked_for(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 1, day=YESTERDAY)]))
    name = world.land(5, [row(5, 2), row(5, 2, day=YESTERDAY)])
    found = try_out(world, name, dates=(YESTERDAY,))
    assert "older than snapshot 7, which is live: only fills gaps" in found.effect
    assert (found.landed.files, found.landed.dates) == (1, (YESTERDAY,))
    assert found.effect.endswith(", on the requested dates; the delivery itself stays to be published")
    assert f"only {YESTERDAY}" in dry_run_text(found)
    with pytest.raises(ConfigurationError, match="not in the delivery"):
        try_out(world, name, dates=(TODAY - timedelta(days=3),))


def test_a_superseded_delivery_would_publish_nothing(world: FeedOnStandIn) -> None:
    older, _ = world.land(7, [row(7, 1)]), world.land(7, [row(7, 2)])
    found = try_out(world, older)
    assert not found.changes_target
    assert "nothing would be published: Delivery" in found.effect
    assert found.loaded_bytes == 0
    assert "| included |" not in dry_run_text(found)


@pytest.mark.exhaustive
def test_another_engine_says_what_it_would_scan(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1)])
    world.publish(name)
    found = try_out(world, name, engine=Engine.MERGE)
    spark = try_out(world, name)
    assert found.cost.table_bytes_read > spark.cost.table_bytes_read == 0
    assert "| loaded into staging | by the engine's statement |" in dry_run_text(found)


def test_landed_files_that_were_touched_and_a_run_at_work_are_reported(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    name = world.land(8, [row(8, 1)])
    world.resolve(name, run_id="at-work")
    world.running.add("at-work")
    world.overwrite(8, f"date={TODAY}/part-0.parquet", b"other")
    found = try_out(world, name)
    assert "was replaced" in found.landed.problems[0]
    text = dry_run_text(found)
    assert "**Would be refused**: object" in text
    assert "At work now: run [at-work] of [feed_publish]" in text
    assert "rows unknown" in text


def test_an_excluded_or_refused_delivery_of_which_some_dates_are_replayed_keeps_its_status(
    world: FeedOnStandIn,
) -> None:
    for snapshot in (7, 8):
        world.publish(world.land(snapshot, [row(snapshot, 1)]))
    excluded = next(d.name for d in world.services.manifests.read(2).deliveries if d.snapshot_id == 8)
    world.roll_back(1)
    assert try_out(world, excluded, dates=(TODAY,)).effect.endswith("the delivery itself stays excluded")
    refused = world.land(9, [row(9, 1)])
    world.services.arrivals.refuse(Refusal(Delivery.parse(refused), "a test", "run", world.now()))
    assert try_out(world, refused, dates=(TODAY,)).effect.endswith("the delivery itself stays refused")


def test_a_file_that_is_no_parquet_would_be_refused(world: FeedOnStandIn) -> None:
    name = world.land_files(7, {f"date={TODAY}/part-0.parquet": b"date,product_id\n"})
    found = try_out(world, name)
    assert "part-0.parquet] cannot be read as Parquet: " in found.landed.problems[0]
    text = dry_run_text(found)
    assert "**Would be refused**: file" in text
    assert "rows unknown" in text


def test_hidden_files_outside_date_folders_are_not_counted(world: FeedOnStandIn) -> None:
    world.feed = world.feed.model_copy(
        update={"landing": world.feed.landing.model_copy(update={"date_folders": False})}
    )
    hidden = {name: b"half-written" for name in ("_temporary/part-1.parquet", ".part-2.parquet")}
    name = world.land_files(7, {"part-0.parquet": parquet_bytes([row(7, 1)]), **hidden})
    found = try_out(world, name)
    assert (found.landed.files, found.landed.rows, found.landed.problems) == (1, 1, ())
