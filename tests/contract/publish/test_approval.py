"""A replay that accepts a failed check waits for a person; whoever wants the lease meanwhile goes first."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dedup_clone.contract.errors import ApprovalTooLate, ConfigurationError, LeaseHeld, LostRace
from dedup_clone.publish.approval import approval_text, begin_approval_wait, end_approval_wait
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.publish.step_specs import PublishSpec, SwapSpec
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import Outcome
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row

HELD = [row(7, n) for n in range(10)]
CHANGED = [row(8, n, 99) for n in range(10)]
ACCEPTS = {"replay": True, "accepted_checks": ("changed_share",), "reason": "prices were reset"}


@dataclass
class Waiting:
    """A replay of snapshot 8, all of whose rows changed, that waits for approval."""

    world: FeedOnStandIn
    name: str
    spec: PublishSpec
    swap: SwapSpec

    @property
    def intent(self) -> Intent:
        return self.world.services.current.require_intent(self.spec.attempt)


@pytest.fixture
def waiting(world: FeedOnStandIn) -> Waiting:
    checks = CheckSettings(max_new_share=1, max_survivor_share=1, max_changed_share=0.5, max_missing_dates=1)
    world.feed = world.feed.model_copy(update={"checks": checks})
    world.publish(world.land(7, HELD))
    name = world.land(8, CHANGED)
    spec = world.resolve(name, run_id="by-hand", **ACCEPTS)
    world.deduplicate(spec)
    world.load(spec)
    swap = world.check(spec)
    world.running.add("by-hand")
    begin_approval_wait(world.services, spec)
    return Waiting(world, name, spec, swap)


def test_whoever_approves_reads_evidence_reason_and_consequence_and_it_is_published(waiting: Waiting) -> None:
    world = waiting.world
    text = approval_text(world.services, waiting.spec)
    assert text
    assert "fails 1 check(s) that its run accepts" in text
    assert "Reason given: prices were reset" in text
    assert "| changed_share | 10 of 10 rows changed (100.0000%)" in text
    assert "Readers see generation 1 until you approve" in text
    assert world.rows() == expected(*HELD)
    end_approval_wait(world.services, waiting.spec)
    with pytest.raises(LeaseHeld):
        world.resolve(world.land(9, CHANGED), run_id="automatic")
    world.swap(waiting.spec, waiting.swap)
    record = world.commit(waiting.spec)
    assert record.reason == "prices were reset"
    assert record.lag_s
    assert {"checks", "approval", "swap"} <= set(record.phases)
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)
    assert world.rows() == expected(*CHANGED)


def test_a_rejected_one_changes_nothing_and_frees_the_lease(waiting: Waiting) -> None:
    world = waiting.world
    assert not commit_or_discard(world.services, waiting.intent)
    assert world.services.current.read().intent is None
    assert world.rows() == expected(*HELD)
    record = world.services.ledger.read(waiting.spec.attempt)
    assert record
    assert record.outcome is Outcome.FAILED
    assert "waited for approval" in record.reason


def test_an_arrival_goes_first_and_the_approval_then_comes_too_late(waiting: Waiting) -> None:
    world = waiting.world
    newer = [*({**r, "update_id": 9} for r in HELD[:6]), *(row(9, n, 99) for n in range(6, 10))]
    record = world.publish(world.land(9, newer), run_id="automatic")
    assert [d.snapshot_id for d in record.deliveries] == [9]
    assert world.rows() == expected(*newer)
    with pytest.raises(ApprovalTooLate, match="Clear the run from its first task"):
        end_approval_wait(world.services, waiting.spec)
    ended = world.services.ledger.read(waiting.spec.attempt)
    assert ended
    assert (ended.run_id, ended.outcome) == ("by-hand", Outcome.FAILED)
    again = world.publish(waiting.name, **{**ACCEPTS, "run_id": "by-hand"})
    assert world.rows() == expected(*newer)
    assert again.generation > record.generation


@pytest.mark.exhaustive
def test_a_rollback_goes_first_too(waiting: Waiting) -> None:
    world = waiting.world
    end_approval_wait(world.services, waiting.spec)
    world.swap(waiting.spec, waiting.swap)
    world.commit(waiting.spec)
    again = world.resolve(waiting.name, run_id="by-hand-2", **ACCEPTS)
    world.running.add("by-hand-2")
    begin_approval_wait(world.services, again)
    world.roll_back(1)
    assert world.rows() == expected(*HELD)


def test_an_approval_and_an_arrival_at_one_time_never_both_have_the_lease(waiting: Waiting) -> None:
    current, seen = waiting.world.services.current, waiting.intent
    end_approval_wait(waiting.world.services, waiting.spec)
    with pytest.raises(LostRace, match="approved just now"):
        current.take_over_lease(seen, dag_id="feed_publish", run_id="automatic")
    begin_approval_wait(waiting.world.services, waiting.spec)
    current.take_over_lease(waiting.intent, dag_id="feed_publish", run_id="automatic")
    with pytest.raises(ApprovalTooLate, match="passed to run \\[automatic\\]"):
        end_approval_wait(waiting.world.services, waiting.spec)


def test_of_two_replays_in_one_second_the_first_is_approved_and_the_second_names_it(waiting: Waiting) -> None:
    """Whoever approves the first must not be told "approved" while the second has ended it."""
    world = waiting.world
    with pytest.raises(ConfigurationError, match=r"\[by-hand\].*waits for an approval.*Answer it first"):
        world.resolve(waiting.name, **ACCEPTS, run_id="second")
    end_approval_wait(world.services, waiting.spec)
    with pytest.raises(LeaseHeld):
        world.resolve(waiting.name, **ACCEPTS, run_id="second")
    world.swap(waiting.spec, waiting.swap)
    world.commit(waiting.spec)
    assert world.rows() == expected(*CHANGED)
    world.publish(waiting.name, **ACCEPTS, run_id="second")
    assert world.rows() == expected(*CHANGED)


def test_a_replay_goes_on_when_the_run_that_waited_was_rejected_or_is_dead(waiting: Waiting) -> None:
    world = waiting.world
    world.running.clear()
    world.publish(waiting.name, **ACCEPTS, run_id="second")
    assert world.rows() == expected(*CHANGED)


def test_a_replay_that_is_refused_makes_nobody_give_way(waiting: Waiting) -> None:
    with pytest.raises(Exception, match="cannot be replayed"):
        waiting.world.resolve(waiting.name, replay=True, run_id="other", dates=())
    assert waiting.intent.waits_for_approval


def test_nothing_is_to_be_approved_where_no_accepted_check_failed(world: FeedOnStandIn) -> None:
    spec = world.resolve(world.land(7, HELD), **ACCEPTS, run_id="by-hand")
    world.deduplicate(spec)
    world.load(spec)
    world.check(spec)
    assert approval_text(world.services, spec) is None
