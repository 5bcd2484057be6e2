"""What an operator reads before a rollback is approved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.publish.previews.date_difference import NOT_KNOWN, describe_difference
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row


def test_the_difference_names_rows_dates_deliveries_and_what_comes_next(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 3, day=YESTERDAY)]))
    taken_out = world.land(8, [row(8, 1, 99), row(8, 4)])
    world.publish(taken_out)
    waiting = world.land(9, [row(9, 2)])
    preview = world.preview(1)
    assert (preview.live_generation, preview.restored_generation) == (2, 1)
    assert (preview.live_rows, preview.restored_rows) == (3, 2)
    assert f"| {TODAY} | 2 | 1 | -1 | other keys |" in preview.text
    assert "1 of 2 dates differ; -1 rows in all. Generations that are taken back: 2." in preview.text
    assert "At most 1 rows vanish, whose keys were new in these; rows that get other values: at most 1." in preview.text
    assert "manifests/00000002.json (now) and gs://" in preview.text
    assert f"Excluded until somebody replays them or they are delivered again: {taken_out}." in preview.text
    assert f"Waiting now: {waiting}." in preview.text
    assert "a clone of staging as it was at" in preview.text
    assert world.services.current.read().intent is None


def test_a_date_without_files_is_said_to_differ_perhaps(world: FeedOnStandIn) -> None:
    """An engine in SQL writes no files, and a correction may leave counts and update ids as they were."""
    for value in (10, 99):
        world.publish(world.land(7, [row(7, 1, value)]), engine=Engine.BIGQUERY)
    text = world.preview(1).text
    assert "1 of 1 dates differ or may differ; +0 rows in all." in text
    assert f"| {TODAY} | 1 | 1 | +0 | {NOT_KNOWN} |" in text


@pytest.mark.exhaustive
def test_forward_again_names_what_is_let_in_again(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    taken_out = world.land(8, [row(8, 1, 99)])
    world.publish(taken_out)
    world.roll_back(1)
    text = world.preview(2).text
    assert f"No longer excluded: {taken_out}." in text
    assert "Generations that are added: 2. At most 0 rows appear" in text


def test_a_date_is_described_by_its_fingerprints_where_they_tell_something(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    (entry,) = world.services.manifests.read(1).dates
    known = replace(entry, key_fingerprint="a", content_fingerprint="b", survivors=0)
    changes = {
        "same keys and values, but for update ids or files": {},
        "same keys, other values": {"content_fingerprint": "c"},
        "other keys": {"key_fingerprint": "c"},
        NOT_KNOWN: {"survivors": 1},
    }
    for text, change in changes.items():
        assert describe_difference(known, replace(known, **change), values_are_comparable=True) == text  # type: ignore[arg-type]
    assert NOT_KNOWN in describe_difference(known, replace(known, files_digest="d"), values_are_comparable=False)
    assert describe_difference(None, known, values_are_comparable=True) == "all its rows appear"
    assert describe_difference(known, None, values_are_comparable=True) == "all its rows vanish"


def test_a_generation_that_is_not_there_is_refused_with_those_that_are(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.publish(world.land(8, [row(8, 1)]))
    with pytest.raises(ConfigurationError, match=r"Choose one of: 2 \(snapshot 8\), 1 \(snapshot 7\)"):
        world.preview(5)
