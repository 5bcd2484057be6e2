"""What the page shows follows every arrival, publish, failure and rollback, although no run writes anything for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.errors import DeliveryRefused
from testkit import runs
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from testkit.operations import page


def states(view: dict[str, Any]) -> dict[str, str]:
    """The state of each delivery, by its name."""
    return {f"{a['snapshot_id']}-{a['marker_generation']}": a["state"] for a in view["replayable"]}


def test_an_arrival_waits_on_the_page_before_anything_is_published(world: FeedOnStandIn) -> None:
    waiting = world.land(7, [row(7, 1)])
    view = page(world)
    assert states(view) == {waiting: "waiting"}
    assert (view["live"], view["dates"], view["publishes"], view["generations"]) == (None, [], [], [])
    (arrival,) = view["waiting"]
    assert (arrival["files"], arrival["dates"], view["sla_minutes"]) == (1, str(TODAY), 60)
    assert view["landing"]["folder"] == f"gs://landing/{world.feed.landing.prefix}/"


def test_a_delivery_is_listed_with_its_dates_unless_they_are_too_many(world: FeedOnStandIn) -> None:
    for snapshot_id, count in ((7, 300), (8, 120)):
        days = [TODAY - timedelta(days=2 * number) for number in range(count)]
        world.land_files(snapshot_id, {f"date={day}/a.parquet": b"x" for day in days})
    newest, oldest = page(world)["replayable"]
    assert newest["dates"].split(", ") == [str(day) for day in reversed(days)]
    assert oldest["dates"] is None


def test_the_page_follows_a_publish_a_failure_a_refusal_a_correction_and_a_rollback(world: FeedOnStandIn) -> None:
    first = world.land(7, [row(7, 1), row(7, 2)])
    record = world.publish(first)
    view = page(world)
    assert [p["run_id"] for p in view["publishes"]] == [record.run_id]
    assert states(view) == {first: "published"}
    assert (view["live"]["generation"], [d[1] for d in view["dates"]]) == (1, [2])
    assert {v["phase"] for v in view["checks"][0]["verdicts"]} == {"before", "after"}
    assert (view["checks"][0]["attempt"], view["checks"][0]["published"]) == (record.attempt, True)
    (generation,) = view["generations"]
    assert (generation["generation"], generation["restorable"]) == (1, "time travel")

    second = world.land(8, [row(8, 1)])
    failed = runs.publish(world, second).until("check")
    failed.end()
    view = page(world)
    assert (states(view)[second], view["live"]["generation"]) == ("waiting", 1)
    assert [f["generation"] for f in view["failures"]] == [2]
    assert view["checks"][-1]["attempt"] == failed.attempt
    assert {v["phase"] for v in view["checks"][-1]["verdicts"]} == {"before"}

    world.dedup.refused_ids = {8}
    with pytest.raises(DeliveryRefused):
        world.publish(second)
    view = page(world)
    (refused,) = view["refused"]
    assert (states(view)[second], bool(refused["refused_at"])) == ("refused", True)
    assert "bad row in [a.parquet]" in refused["reason"]
    assert view["failures"][-1]["outcome"] == "refused"

    third, corrected = world.land(9, [row(9, 1)]), world.land(9, [row(9, 1, 21)])
    world.publish(corrected)
    view = page(world)
    assert (states(view)[third], states(view)[corrected]) == ("superseded", "published")
    world.roll_back(1)
    view = page(world)
    assert states(view)[corrected] == "excluded"
    assert corrected in view["excluded"]
    assert (view["live"]["generation"], view["generations"][0]["restores"]) == (5, 1)
