"""What readers may know of all feeds, read over and over while they publish."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dedup_clone.state.feed_status import FOLDER, StatusRow, StatusRows
from tests.unit.state.conftest import Buckets

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


def row(feed: str, generation: int = 1) -> StatusRow:
    return StatusRow(feed, generation, 7, NOW - timedelta(minutes=9), NOW)


def test_rows_of_all_feeds_are_read_by_feed(buckets: Buckets) -> None:
    rows = [row(f"feed_{number:02}") for number in range(25)]
    for one in reversed(rows):
        StatusRows(buckets.state).write(one)
    assert StatusRows(buckets.state).read() == rows


def test_what_others_wrote_or_deleted_meanwhile_is_seen(buckets: Buckets) -> None:
    status, other = StatusRows(buckets.state), StatusRows(buckets.state)
    status.write(row("a"))
    status.write(row("b"))
    assert status.read() == [row("a"), row("b")]
    other.write(row("b", 2))
    other.write(row("c"))
    assert status.read() == [row("a"), row("b", 2), row("c")]
    buckets.state.delete_prefix(f"{FOLDER}a.json")
    assert status.read() == [row("b", 2), row("c")]


def test_a_row_of_an_earlier_generation_does_not_replace_a_later_one(buckets: Buckets) -> None:
    for generation in (1, 3, 2):
        StatusRows(buckets.state).write(row("a", generation))
    assert StatusRows(buckets.state).read() == [row("a", 3)]


def test_a_row_that_cannot_be_read_is_replaced(buckets: Buckets) -> None:
    buckets.state.put(f"{FOLDER}a.json", "{")
    StatusRows(buckets.state).write(row("a"))
    assert StatusRows(buckets.state).read() == [row("a")]
