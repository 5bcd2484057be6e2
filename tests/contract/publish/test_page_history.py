"""What the page shows follows every arrival, publish, failure and rollback, although no run writes anything for it."""

from __future__ import annotations

from typing import Any

import pytest

from dedup_clone.contract.errors import DeliveryRefused
from testkit import runs
from testkit.feed_on_stand_in import FeedOnStandIn, row
from testkit.operations import page


def states(view: dict[str, Any]) -> dict[str, str]:
    """The state of each delivery, by its name."""
    return {f"{a['snapshot_id']}-{a['marker_generation']}": a["state"] for a in view["deliveries"]}


def test_the_page_follows_a_delivery_until_its_snapshot_is_rolled_back(world: FeedOnStandIn) -> None:
    world.configure(landing={"marker": "_COMPLETE"})
    first = world.land(7, [row(7, 1), row(7, 2)])
    view = page(world)
    assert (states(view), view["live"], view["dates"], view["publishes"]) == ({first: "waiting"}, None, [], [])
    assert (view["deliveries"][0]["files"], view["sla_minutes"]) == (1, 60)
    assert view["landing_folder"] == f"gs://landing/{world.feed.landing.prefix}/"
    record = world.publish(first)
    view = page(world)
    assert [p["run_id"] for p in view["publishes"]] == [record.run_id]
    assert states(view) == {first: "published"}
    assert (view["live"]["generation"], [d[1] for d in view["dates"]]) == (1, [2])
    assert {v["phase"] for v in view["checks"][0]["verdicts"]} == {"before", "after"}
    assert (view["checks"][0]["generation"], view["checks"][0]["published"]) == (1, True)
    (generation,) = view["publishes"]
    assert (generation["generation"], generation["restorable"]) == (1, "time travel")

    second = world.land(8, [row(8, 1)])
    failed = runs.publish(world, second).until("check")
    failed.end()
    view = page(world)
    assert (states(view)[second], view["live"]["generation"]) == ("waiting", 1)
    assert (view["checks"][-1]["generation"], view["checks"][-1]["published"]) == (2, False)
    assert {v["phase"] for v in view["checks"][-1]["verdicts"]} == {"before"}

    world.spoil(8)
    with pytest.raises(DeliveryRefused):
        world.publish(second)
    view = page(world)
    (refused,) = [delivery for delivery in view["deliveries"] if delivery["state"] == "refused"]
    assert states(view)[second] == "refused"
    assert "was replaced" in refused["refusal"]

    third, corrected = world.land(9, [row(9, 1)]), world.land(9, [row(9, 1, 21)])
    world.publish(corrected)
    view = page(world)
    assert (states(view)[third], states(view)[corrected]) == ("superseded", "published")
    world.roll_back(1)
    view = page(world)
    assert states(view)[corrected] == "excluded"
    assert (view["live"]["generation"], view["live"]["restores"]) == (5, 1)


@pytest.mark.parametrize("settings", [{"publish": {"swap": "copy"}}, {"table": {"partition_by": "month"}}], ids=str)
def test_the_page_offers_time_travel_only_to_a_rollback_that_can_use_it(
    world: FeedOnStandIn, settings: dict[str, Any]
) -> None:
    world.configure(**settings)
    for snapshot_id in (7, 8, 9):
        world.publish(world.land(snapshot_id, [row(snapshot_id, 1)]))
    offered = {p["generation"]: p["restorable"] for p in page(world)["publishes"]}
    assert offered == {1: None, 2: "files", 3: "files"}
