"""A generation with more files than it may have."""

from __future__ import annotations

import pytest

from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish import load
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row


def test_too_many_files_are_refused_before_staging_is_touched(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    spec = world.resolve(world.land(8, [row(8, 1), row(8, 2, day=YESTERDAY)]))
    world.dedup.run(spec.request_uri)
    monkeypatch.setattr(load, "MAX_TABLE_FILES", 1)
    with pytest.raises(CheckFailed, match=r"\[2\] files, expected at most \[1\]: replay the snapshot with plan"):
        world.load(spec)
    assert world.rows(world.feed.staging) == expected(row(7, 1))
    staging = world.services.staging.read()
    assert staging is not None
    assert staging.state == "loaded"
