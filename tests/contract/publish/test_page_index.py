"""index.json: what the page shows follows every arrival, publish, failure and rollback."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.contract.errors import DeliveryRefused
from testkit import runs
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from testkit.killed_writes import failing_writes


def states(world: FeedOnStandIn) -> dict[str, str]:
    return {name(a["delivery"]): a["state"] for a in world.state.index["arrivals"]}


def name(delivery: dict[str, int]) -> str:
    return f"{delivery['snapshot_id']}-{delivery['marker_generation']}"


def test_an_arrival_waits_in_the_index_before_anything_is_published(world: FeedOnStandIn) -> None:
    waiting = world.land(7, [row(7, 1)])
    runs.refresh_page(world)
    index = world.state.index
    assert states(world) == {waiting: "waiting"}
    assert (index["generation"], index["dates"], index["records"], index["time_travel"]) == (None, [], [], None)
    (arrival,) = index["arrivals"]
    assert (arrival["files"], arrival["dates"], index["sla_minutes"]) == (1, str(TODAY), 60)


def test_the_dates_of_older_deliveries_are_left_out_before_those_of_newer_ones(world: FeedOnStandIn) -> None:
    """And a delivery whose dates have many gaps is listed with all of them."""
    days = [TODAY - timedelta(days=number) for number in range(0, 240, 2)]
    for snapshot_id in (7, 8):
        world.land_files(snapshot_id, {f"date={day}/a.parquet": b"x" for day in days})
    text = ", ".join(map(str, reversed(days)))
    for limit, shown in ((None, [text, text]), (len(text), [None, text])):
        with runs.small_limits(**({"dates_text": limit} if limit else {})):
            runs.refresh_page(world)
        assert [a["dates"] for a in world.state.index["arrivals"]] == shown


def test_the_index_follows_a_publish_a_failure_a_refusal_a_correction_and_a_rollback(world: FeedOnStandIn) -> None:
    first = world.land(7, [row(7, 1), row(7, 2)])
    record = world.publish(first)
    index = world.state.index
    assert [r["attempt"] for r in index["records"]] == [record.attempt]
    assert states(world) == {first: "published"}
    assert (index["generation"], [d["rows"] for d in index["dates"]]) == (1, [2])
    assert {v["phase"] for v in index["checks"][0]["verdicts"]} == {"before", "after"}
    assert index["checks"][0]["attempt"] == record.attempt
    (generation,) = index["generations"]
    assert (generation["generation"], generation["has_files"]) == (1, True)
    assert index["time_travel"]["staging_created_at"] < generation["checked_at"]

    second = world.land(8, [row(8, 1)])
    failed = runs.publish(world, second).until("check")
    failed.end()
    index = world.state.index
    assert (states(world)[second], index["generation"]) == ("waiting", 1)
    assert [f["attempt"] for f in index["failures"]] == [index["checks"][-1]["attempt"]] == [failed.attempt]
    assert {v["phase"] for v in index["checks"][-1]["verdicts"]} == {"before"}

    world.dedup.refused_ids = {8}
    with pytest.raises(DeliveryRefused):
        world.publish(second)
    index = world.state.index
    (refused,) = [a for a in index["arrivals"] if name(a["delivery"]) == second]
    assert (refused["state"], bool(refused["refused_at"])) == ("refused", True)
    assert "bad row in [a.parquet]" in refused["reason"]
    assert index["failures"][-1]["outcome"] == "refused"

    third, corrected = world.land(9, [row(9, 1)]), world.land(9, [row(9, 1, 21)])
    world.publish(corrected)
    assert (states(world)[third], states(world)[corrected]) == ("superseded", "published")
    world.roll_back(1)
    index = world.state.index
    assert states(world)[corrected] == "excluded"
    assert corrected in [name(d) for d in index["excluded"]]
    assert (index["generation"], index["generations"][-1]["restores"]) == (5, 1)


@pytest.mark.parametrize("spoiled", ["gone", "unreadable"])
def test_a_spoiled_index_is_made_again_from_the_other_records(world: FeedOnStandIn, spoiled: str) -> None:
    for snapshot_id in (7, 8):
        world.publish(world.land(snapshot_id, [row(snapshot_id, 1)]))
    before = world.state.index
    if spoiled == "gone":
        world.state.lose("index.json")
    else:
        world.state.write("index.json", "{}")
    runs.refresh_page(world)
    again = world.state.index
    for part in ("records", "dates", "generations", "arrivals"):
        assert again[part] == before[part], part


def test_two_writers_lose_nothing_of_each_other(world: FeedOnStandIn) -> None:
    """Arrivals are registered while a commit writes the index: the later one derives it again."""
    world.publish(world.land(7, [row(7, 1)]))
    late = world.land(9, [row(9, 1)])
    with failing_writes("index.json", before=lambda: world.publish(world.land(8, [row(8, 1)]))):
        runs.refresh_page(world)
    assert [r["generation"] for r in world.state.index["records"]] == [1, 2]
    assert states(world)[late] == "published"  # included with 8


def test_an_index_that_cannot_be_written_fails_no_run_and_the_next_refresh_has_it_all(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    with failing_writes("index.json"):
        record = world.publish(world.land(8, [row(8, 1)]))
        runs.publish(world, world.land(9, [row(9, 1)])).until("resolve").end()
    assert (world.state.generation, world.state.lease) == (2, None)
    runs.refresh_page(world)
    index = world.state.index
    assert (index["generation"], index["records"][-1]["attempt"]) == (2, record.attempt)
    assert [f["generation"] for f in index["failures"]] == [3]
