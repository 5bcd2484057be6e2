"""Backfill: snapshots of an archive are landed in order, and only while no delivery waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.backfill.archived_snapshots import BackfillRequest, describe_backfill, find_archived
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row
from tests.contract.publish.archive import Archive


@pytest.fixture
def archive(world: FeedOnStandIn) -> Archive:
    archive = Archive(world)
    archive.put(3, [row(3, 1, 31), row(3, 2, 32)])
    archive.put(5, [row(5, 2, 52), row(5, 3, 53)])
    return archive


def test_archived_snapshots_fill_in_what_newer_ones_lack(world: FeedOnStandIn, archive: Archive) -> None:
    world.publish(world.land(7, [row(7, 3, 73)]))
    landed = []
    while not archive.land_next():
        (name,) = archive.notice()
        landed.append(name.split("-")[0])
        world.publish(name)
    assert landed == ["3", "5"]
    assert world.rows() == expected(row(3, 1, 31), row(5, 2, 52), row(7, 3, 73))


@pytest.mark.exhaustive
def test_snapshots_that_land_together_are_one_publish(world: FeedOnStandIn, archive: Archive) -> None:
    archive.request = replace(archive.request, at_once=2)
    assert not archive.land_next()
    *_, newest = archive.notice()
    assert world.publish(newest).generation == 1
    assert archive.land_next()
    assert world.rows() == expected(row(3, 1, 31), row(5, 2, 52), row(5, 3, 53))


def test_a_backfill_waits_for_every_delivery_even_one_that_nobody_noticed_yet(
    world: FeedOnStandIn, archive: Archive
) -> None:
    name = world.land(7, [row(7, 3)])
    assert not archive.land_next()
    assert archive.notice() == []
    world.publish(name)
    assert not archive.land_next()  # lands 3
    assert not archive.land_next()  # waits, although no record of 3 exists yet
    (third,) = archive.notice()
    assert third.startswith("3-")


def test_a_backfill_pauses_between_two_landings(world: FeedOnStandIn, archive: Archive) -> None:
    archive.request = replace(archive.request, pause_minutes=20)
    archive.land_next()
    world.publish(*archive.notice())
    assert not archive.land_next()
    assert archive.notice() == []
    later = world.now() + timedelta(minutes=21)
    world.now = lambda: later
    archive.land_next()
    assert archive.notice()[0].startswith("5-")


def test_a_copy_that_was_interrupted_is_made_again(world: FeedOnStandIn, archive: Archive) -> None:
    half = world.storage.bucket(world.places.landing).blob(
        f"{world.feed.landing.prefix}/snapshot_id=3/date={TODAY}/part-0.parquet"
    )
    half.upload_from_string(b"half")
    archive.land_next()
    world.publish(*archive.notice())
    assert world.rows() == expected(row(3, 1, 31), row(3, 2, 32))


def test_objects_of_somebody_else_in_the_folder_stop_the_backfill(world: FeedOnStandIn, archive: Archive) -> None:
    other = f"{world.feed.landing.prefix}/snapshot_id=3/date={TODAY}/part-9.parquet"
    world.storage.bucket(world.places.landing).blob(other).upload_from_string(b"being written")
    with pytest.raises(ContractViolation, match=r"has objects that the archive's snapshot lacks, such as \[.*part-9"):
        archive.land_next()
    assert archive.notice() == []


def test_ids_limit_the_backfill_and_the_approver_reads_what_lands(world: FeedOnStandIn, archive: Archive) -> None:
    limited = replace(archive.request, first_id=4)
    assert [m.delivery.snapshot_id for m in find_archived(world.services, archive.landing, limited).to_land] == [5]
    assert "Copies [2] snapshots, ids [3] to [5]" in describe_backfill(world.services, archive.landing, archive.request)
    with pytest.raises(ConfigurationError, match="has no complete snapshot of these ids"):
        find_archived(world.services, archive.landing, replace(archive.request, last_id=2))


def test_the_approver_reads_how_many_snapshots_landed_not_how_many_deliveries(
    world: FeedOnStandIn, archive: Archive
) -> None:
    world.publish(world.land(3, [row(3, 1)]))
    world.publish(world.land(3, [row(3, 1, 31)]))  # a correction
    assert "[1] have landed before" in describe_backfill(world.services, archive.landing, archive.request)


def test_a_feed_of_changed_rows_takes_no_late_snapshots(world: FeedOnStandIn, archive: Archive) -> None:
    world.publish(world.land(4, [row(4, 3)]))
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    with pytest.raises(ConfigurationError, match=r"takes no late snapshot: \[1\] of the archive, from \[3\] on"):
        archive.land_next()


@pytest.mark.parametrize("text", ["", "bucket/folder", "gs://bucket", "gs://bucket/"])
def test_an_archive_that_is_no_folder_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is no folder, expected \[gs://BUCKET/FOLDER\]"):
        BackfillRequest(text, None, None, 1, 0).bucket_and_prefix()
