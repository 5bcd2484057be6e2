"""What an operator reads before a rollback is approved."""

from __future__ import annotations

import pytest

from dedup_clone.contract.errors import ConfigurationError
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row


def test_the_difference_names_rows_dates_deliveries_and_what_comes_next(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 3, day=YESTERDAY)]))
    taken_out = world.land(8, [row(8, 1, 99), row(8, 4)])
    world.publish(taken_out)
    waiting = world.land(9, [row(9, 2)])
    preview = world.preview(1)
    assert (preview.live_generation, preview.restored_generation) == (2, 1)
    assert (preview.live_rows, preview.restored_rows) == (3, 2)
    assert f"| {TODAY} | 2 | 1 |" in preview.text
    assert f"Excluded until somebody replays them or they are delivered again: {taken_out}." in preview.text
    assert f"Waiting now: {waiting}." in preview.text
    assert "a clone of staging as it was at" in preview.text
    assert world.services.current.read().intent is None


@pytest.mark.exhaustive
def test_forward_again_names_what_is_let_in_again(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    taken_out = world.land(8, [row(8, 1, 99)])
    world.publish(taken_out)
    world.roll_back(1)
    assert f"No longer excluded: {taken_out}." in world.preview(2).text


def test_a_generation_that_is_not_there_is_refused_with_those_that_are(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.publish(world.land(8, [row(8, 1)]))
    with pytest.raises(ConfigurationError, match=r"Choose one of: 1 \(snapshot 7\)"):
        world.preview(5)
