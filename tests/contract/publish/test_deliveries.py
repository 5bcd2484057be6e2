"""Deliveries under the protocol: corrected, late, repeated, changed, refused; and what an operator may accept."""

from __future__ import annotations

import pytest

from dedup_clone.checks.check_result import Level
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish.records.attempt_records import read_check_results
from dedup_clone.publish.resolve import resolve
from dedup_clone.settings.check_settings import CheckSettings
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row

BASE = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]


def test_a_correction_wins_where_it_corrects_downward_and_keeps_what_it_lacks(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, BASE))
    world.publish(world.land(7, [row(7, 1, 3)]))
    assert world.rows() == expected(row(7, 1, 3), row(7, 2), row(7, 3, day=YESTERDAY))


@pytest.mark.exhaustive
def test_an_older_delivery_that_is_noticed_after_a_newer_one_changes_nothing(world: FeedOnStandIn) -> None:
    older = world.land(7, BASE)
    newer = world.land(7, [row(7, 1, 3)])
    world.publish(newer)
    assert "later delivery of snapshot 7" in str(resolve(world.services, world.publish_request(older)))
    world.publish(world.land(8, [row(8, 9)]))
    assert world.rows() == expected(row(7, 1, 3), row(8, 9))


@pytest.mark.exhaustive
def test_a_marker_written_again_without_a_change_changes_no_row(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, BASE))
    world.publish(world.land(7, BASE))
    assert world.rows() == expected(*BASE)


def test_a_late_snapshot_only_fills_gaps_and_has_a_lag_of_its_own(world: FeedOnStandIn) -> None:
    world.publish(world.land(8, [row(8, 1, 80)]))
    record = world.publish(world.land(7, BASE))
    assert world.rows() == expected(row(8, 1, 80), row(7, 2), row(7, 3, day=YESTERDAY))
    assert (record.snapshot_id, record.is_replay) == (8, False)
    assert record.lag_s is not None


@pytest.mark.exhaustive
def test_any_number_of_waiting_deliveries_is_folded_in_one_publish(world: FeedOnStandIn) -> None:
    names = [world.land(n, [row(n, n), row(n, 1, n)]) for n in (9, 7, 12, 8, 11, 10)]
    record = world.publish(names[0])
    assert [d.snapshot_id for d in record.deliveries] == [7, 8, 9, 10, 11, 12]
    assert world.rows() == expected(row(12, 1, 12), *[row(n, n) for n in range(7, 13)])
    for name in names:
        assert "part of generation 1" in str(resolve(world.services, world.publish_request(name)))


@pytest.mark.exhaustive
def test_a_refused_delivery_among_many_blocks_none(world: FeedOnStandIn) -> None:
    names = [world.land(n, [row(n, n)]) for n in (7, 8, 9)]
    world.dedup.refused_ids = {8}
    record = world.publish(names[1])
    assert [d.snapshot_id for d in record.deliveries] == [7, 9]
    assert [d.snapshot_id for d in world.services.arrivals.refused()] == [8]


@pytest.fixture
def strict_world(world: FeedOnStandIn) -> FeedOnStandIn:
    checks = CheckSettings(max_new_share=0.5, max_survivor_share=0.5, max_changed_share=0.5, max_missing_dates=1)
    world.feed = world.feed.model_copy(update={"checks": checks})
    return world


def test_a_snapshot_beyond_its_bounds_stops_before_the_swap_unless_its_check_is_accepted_by_name(
    strict_world: FeedOnStandIn,
) -> None:
    base = [row(7, n) for n in range(10)]
    strict_world.publish(strict_world.land(7, base))
    changed = [row(8, n, 99) for n in range(10)]
    name = strict_world.land(8, changed)
    with pytest.raises(CheckFailed) as failed:
        strict_world.publish(name)
    message = str(failed.value)
    assert "changed_share: [10 of 10 rows changed (100.0000%)" in message
    assert f"most on {TODAY}: 10 of 10; of delivery [{name}]" in message
    assert "product_id" not in message
    assert "replay and accept [changed_share]" in message
    assert strict_world.rows() == expected(*base)
    with pytest.raises(CheckFailed, match="changed_share"):
        strict_world.publish(name, run_id="manual", replay=True, accepted_checks=("new_share",), reason="another check")
    stopped = strict_world.services.ledger.read_last(1)[0]
    assert stopped.reason == "stopped by check [changed_share]: 100 % changed rows, 50 % allowed"
    record = strict_world.publish(
        name, run_id="again", replay=True, accepted_checks=("changed_share",), reason="prices were reset"
    )
    assert strict_world.rows() == expected(*changed)
    assert record.reason == "prices were reset"
    (result,) = [
        v
        for v in read_check_results(strict_world.services, record.attempt, "before").items
        if v.check == "changed_share"
    ]
    assert (result.level, result.next_step) == (Level.WARN, "accepted by the operator: prices were reset")


@pytest.mark.exhaustive
def test_a_snapshot_that_is_unusual_for_its_feed_stops_although_it_is_within_its_bounds(
    strict_world: FeedOnStandIn,
) -> None:
    base = [row(7, n) for n in range(200)]
    strict_world.publish(strict_world.land(7, base))
    for snapshot in range(8, 14):
        strict_world.publish(strict_world.land(snapshot, [{**r, "update_id": snapshot} for r in base]))
    usual = strict_world.rows()
    odd = [row(14, n, 20 + (n < 10)) for n in range(200)]
    with pytest.raises(CheckFailed, match=r"changed_share.*10 of 200 rows changed.*the last 7 publishes"):
        strict_world.publish(strict_world.land(14, odd))
    assert strict_world.rows() == usual
