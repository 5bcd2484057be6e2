"""Backfill: snapshots of an archive are landed in order, and only while no delivery waits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.table import UpdateIdMode
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row
from testkit.runs import Archive


def archive_of(world: FeedOnStandIn, **form: object) -> Archive:
    archive = Archive(world, **form)
    archive.put(3, [row(3, 1, 31), row(3, 2, 32)])
    archive.put(5, [row(5, 2, 52), row(5, 3, 53)])
    return archive


def test_archived_snapshots_fill_in_what_newer_ones_lack_one_after_the_other(world: FeedOnStandIn) -> None:
    archive, newest = archive_of(world, pause_minutes=20), world.land(7, [row(7, 3, 73)])
    assert not archive.land_next()
    assert archive.notice() == [], "it waits for every delivery"
    world.publish(newest)
    world.overwrite(3, f"date={TODAY}/part-0.parquet", b"half")  # a copy that was interrupted is made again
    for _ in range(2):
        assert not archive.land_next()  # lands 3, and waits although nobody noticed it yet
    (third,) = archive.notice()
    world.publish(third)
    assert not archive.land_next()
    assert archive.notice() == [], "it pauses"
    later = world.now() + timedelta(minutes=21)
    world.now = lambda: later
    assert not archive.land_next()
    (fifth,) = archive.notice()
    world.publish(fifth)
    assert archive.land_next()
    assert [third.split("-")[0], fifth.split("-")[0]] == ["3", "5"]
    assert world.rows() == expected(row(3, 1, 31), row(5, 2, 52), row(7, 3, 73))


def test_objects_of_somebody_else_in_the_folder_stop_the_backfill(world: FeedOnStandIn) -> None:
    archive = archive_of(world)
    world.overwrite(3, f"date={TODAY}/part-9.parquet", b"being written")
    with pytest.raises(ContractViolation, match="part-9"):
        archive.land_next()
    assert archive.notice() == []


def test_ids_limit_the_backfill_and_the_approver_reads_what_lands(world: FeedOnStandIn) -> None:
    assert "Copies [2] snapshots, ids [3] to [5]" in archive_of(world).text
    assert "Copies [1] snapshots, ids [5] to [5]" in archive_of(world, first_id=4).text
    with pytest.raises(ConfigurationError):
        archive_of(world, last_id=2).land_next()


def test_a_feed_of_changed_rows_takes_no_late_snapshots(world: FeedOnStandIn) -> None:
    world.publish(world.land(4, [row(4, 3)]))
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    with pytest.raises(ConfigurationError, match=r"takes no late snapshot: \[1\]"):
        archive_of(world).land_next()
